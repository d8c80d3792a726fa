"""Prompts through the atlas's own model, which runs in a separate process; the answers are tables like the atlas's."""

from atlas.live.session import Live, LiveTrace
from atlas.live.switching import SwitchOffResult

SwitchedOff = SwitchOffResult
"""Former name of SwitchOffResult, until the next version."""

__all__ = ["Live", "LiveTrace", "SwitchOffResult", "SwitchedOff"]
