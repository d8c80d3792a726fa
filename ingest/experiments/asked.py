"""The former name of ingest.experiments.prompt_types, from which kinds of experiments in other distributions may import until the next version."""

from ingest.experiments.prompt_types import FACTS, STATES, SubjectPrompt, TextPrompt, facts, windows

__all__ = ["FACTS", "STATES", "SubjectPrompt", "TextPrompt", "facts", "windows"]
