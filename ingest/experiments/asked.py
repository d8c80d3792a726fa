"""The former name of ingest.experiments.prompt_types, until the next version, for kinds of experiments of other distributions."""

from ingest.experiments.prompt_types import FACTS, STATES, SubjectPrompt, TextPrompt, facts, windows

__all__ = ["FACTS", "STATES", "SubjectPrompt", "TextPrompt", "facts", "windows"]
