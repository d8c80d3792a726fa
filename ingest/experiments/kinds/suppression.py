"""Suppression of toxicity (Geva et al. 2022, section 6.1): text generated with values of a concept switched on, beside controls and other methods."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ingest.experiments.base import Cost, ExperimentContext, Kind, Part, PartResult, Plan, Progress
from schema.fields import setting
from schema.live import MOST_NEW_TOKENS
from schema.registry import key_by_name

if TYPE_CHECKING:
    from ingest.acting.suppression import PlannedArm
    from ingest.acting.suppression_arm import SuppressionTrial

SCORERS = ("alt-profanity-check", "hatesonar")
UNWANTED = "unwanted-words"

WRITTEN = 4
"""Cost of generating one token, in tokens that are only read."""


@dataclass(frozen=True)
class Settings:
    concept: tuple[str, ...] = setting((), help="words whose values are switched on; by default the atlas's words of safety and kindness")
    unwanted: tuple[str, ...] = setting((), help="words of the word filter and of the positive control; by default LDNOOBW's English words")
    values: int = setting(10, help="maximum number of values of the concept and of its opposite, the best first", least=1, most=1000)
    min_tokens: int = setting(4, help="number of tokens of the words that a value must have among its 30", least=1)
    strengths: tuple[float, ...] = setting((0.5, 0.75), help="coefficients, as multiples of a neuron's largest in the corpus", least=0.0, most_items=16)
    corpus: int = setting(0, help="corpus of the largest coefficients", least=0)
    samples: int = setting(3, help="sampled continuations of each prompt, in addition to the greedy one", least=1, most=100)
    draws: int = setting(5, help="number of random controls for each strength", least=5, most=100)
    new_tokens: int = setting(20, help="tokens of a continuation", least=1, most=MOST_NEW_TOKENS)
    top_p: float = setting(0.95, help="probability of the likeliest tokens from which a token is drawn", least=0.0, most=1.0)
    temperature: float = setting(1.0, help="number that logits are divided by before a token is drawn", least=0.0)
    debiasing: float = setting(50.0, help="strength of self-debiasing", least=0.0)
    descriptions: tuple[str, ...] = setting((), help="texts that self-debiasing reads before a prompt; by default the atlas's six")
    scorers: tuple[str, ...] = setting(SCORERS, help="scorers of the continuations", among=(*SCORERS, UNWANTED))
    text: int = setting(0, help="corpus on whose text the loss of arms is computed", least=0)
    text_tokens: int = setting(2048, help="tokens of that text", least=2)


@dataclass(frozen=True)
class Template:
    text: str = setting(help="the prompt that the model continues")
    cluster: str = setting(help="template of the prompt: prompts of one template count as one observation")


def templates() -> list[dict[str, Any]]:
    from ingest.acting.word_lists import template_prompts

    return [{"text": text, "cluster": cluster} for text, cluster in template_prompts()]


TEMPLATES = {"templates": templates}


class Suppression(Kind):
    name = "suppression"
    help = "How much less toxic a model's text is with values of a concept switched on, compared with random values, a word filter and self-debiasing."
    example = "atlas experiment suppression --db demo.duckdb --dry-run"
    settings = Settings
    prompt = Template
    shipped = TEMPLATES
    usual = "templates"

    def plan(self, world: ExperimentContext, settings: Settings, prompts: Sequence[Template], seed: int) -> Plan:
        from ingest.experiments.suppressing import arm_tables, build_trial, plan_arms, prompt_rows, trial_facts

        arms = plan_arms(world, settings, seed)
        assay, tables = build_trial(world, settings, prompts, arms[0], seed), prompt_rows(world, prompts)
        parts = [Part(one.name, cost(assay, one), partial(write_arm, assay, arm_id, one)) for arm_id, one in enumerate(arms)]
        return Plan({**tables, **arm_tables(world, arms)}, parts, trial_facts(assay))


def cost(trial: "SuppressionTrial", one: "PlannedArm") -> Cost:
    """Compute the cost of an arm. Self-debiasing reads and writes everything again after each description."""
    from ingest.acting.suppression import SELF_DEBIASING

    times = 1 + len(trial.how.descriptions) * (one.way == SELF_DEBIASING)
    n = len(trial.how.seeds) + 1
    read = sum(n * len(prompt) for prompt in trial.prompts) + sum(map(len, trial.text))
    new = n * len(trial.prompts) * trial.how.n_new
    return Cost(times * (n * len(trial.prompts) * trial.how.n_new + len(trial.text)), float(times * (read + WRITTEN * new)))


def write_arm(trial: "SuppressionTrial", arm_id: int, one: "PlannedArm", progress: Progress) -> PartResult:
    from ingest.experiments.suppressing import as_tables

    return PartResult(as_tables(trial.arm_rows(arm_id, one, progress)))


KINDS = key_by_name(Suppression())
