"""Prompts through the atlas's own model, which a process of its own holds: answers are the atlas's tables."""

from atlas.live.session import Live, LiveTrace
from atlas.live.switching import SwitchOffResult

__all__ = ["Live", "LiveTrace", "SwitchOffResult"]
