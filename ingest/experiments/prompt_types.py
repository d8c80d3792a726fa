"""Prompts and states that several kinds of experiments have in common."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from schema.fields import setting

STATES = ("resid_post", "attn_out", "ffn_out")
"""Sites whose states can be put into another run."""


def windows(sites: Sequence[str], window: int) -> dict[str, int]:
    """Map each site to the number of layers whose states are replaced together.

    A single resid_post contains the work of all layers before it; the update of a single layer has too small an effect to see (Meng et al. 2022).
    """
    return {site: 1 if site == "resid_post" else window for site in sites}


@dataclass(frozen=True)
class SubjectPrompt:
    text: str = setting(help="what the model reads")
    subject: str = setting(help="part of the text, at its first occurrence")
    answer: str | None = setting(None, help="answer that should follow, with the space before it")
    cluster: str | None = setting(None, help="template of the prompt: prompts of one template count as one observation")


def facts() -> list[dict[str, Any]]:
    """Read the facts of ingest/acting/facts.jsonl as mappings with `SubjectPrompt`'s fields."""
    from ingest.acting.facts import FILE, read_facts

    return [{"text": f.prompt, "subject": f.subject, "answer": f.answer, "cluster": f.cluster} for f in read_facts(FILE.read_text(encoding="utf-8"))]


FACTS = {"facts": facts}
"""Shipped lists of `SubjectPrompt`, by name."""


@dataclass(frozen=True)
class TextPrompt:
    text: str = setting(help="what the model reads")
    answer: str | None = setting(None, help="answer that should follow, with the space before it")
    cluster: str | None = setting(None, help="template of the prompt: prompts of one template count as one observation")
