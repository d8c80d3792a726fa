"""Saliency: the tokens that a prediction depends on, by gradients, their integral (Sundararajan et al. 2017) and occlusion."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ingest.experiments.base import Cost, ExperimentContext, Kind, Part, PartResult, Plan, Progress
from ingest.experiments.prompt_types import TextPrompt
from schema.fields import setting
from schema.registry import key_by_name
from schema.terms import ATTRIBUTION_SCORES

if TYPE_CHECKING:
    from ingest.experiments.prompts import ReadPrompt
    from ingest.model.models import Model

GRADIENT = 3
"""Number of forward passes that one pass with gradients counts as."""


@dataclass(frozen=True)
class Settings:
    scores: tuple[str, ...] = setting(("logprob",), help="scores that are attributed to tokens", among=ATTRIBUTION_SCORES)
    baseline: str | None = setting(None, help="the token, as text, that replaces others; by default the end-of-text token")


class Saliency(Kind):
    name = "saliency"
    help = "Which tokens a prediction depends on, by gradient × input, integrated gradients and occlusion."
    example = 'atlas experiment saliency "The Eiffel Tower is located in the city of" --answer " Paris" --db demo.duckdb'
    settings = Settings
    prompt = TextPrompt

    def plan(self, world: ExperimentContext, settings: Settings, prompts: Sequence[TextPrompt], seed: int) -> Plan:
        from ingest.acting.saliency import default_baseline
        from ingest.experiments.prompts import one_token, prompt_tables, read_prompt

        model = world.model
        baseline = default_baseline(model) if settings.baseline is None else one_token(model, settings.baseline, "the baseline")
        read = [read_prompt(world, i, one.text, one.answer, cluster=one.cluster) for i, one in enumerate(prompts)]
        parts = [part(model, i, one, score, baseline) for i, one in enumerate(read) for score in settings.scores]
        return Plan(prompt_tables(world, read), parts, {"baseline_token_id": baseline}, is_most=True)


def part(model: "Model", prompt_id: int, one: "ReadPrompt", score: str, baseline: int) -> Part:
    from ingest.acting.integral import FIRST_STEPS, MOST_STEPS

    n_gradients, n_plain = 2 * MOST_STEPS - FIRST_STEPS + 1, len(one.prompt.token_ids) + 3
    cost = Cost(n_plain + n_gradients, float(len(one.prompt.input_ids) * (n_plain + GRADIENT * n_gradients)))
    return Part(f"prompt {prompt_id}, {score}", cost, partial(attribute_prompt, model, prompt_id, one, score, baseline))


def attribute_prompt(model: "Model", prompt_id: int, one: "ReadPrompt", score: str, baseline: int, progress: Progress) -> PartResult:
    from ingest.acting.saliency import saliency
    from ingest.experiments.rows import of_prompt

    rows, totals = saliency(model, one.prompt, score, baseline, progress)
    return PartResult({"attribution": of_prompt(rows, prompt_id), "attribution_total": of_prompt(totals, prompt_id)}, one.note)


KINDS = key_by_name(Saliency())
