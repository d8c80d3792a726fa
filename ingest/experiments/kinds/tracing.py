"""Causal tracing (Meng et al. 2022, section 2): which clean states, restored after noise on the subject, bring the answer back."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ingest.experiments.base import Cost, ExperimentContext, Kind, Part, PartResult, Plan, Progress
from ingest.experiments.prompt_types import FACTS, STATES, SubjectPrompt, windows
from schema.fields import setting
from schema.registry import key_by_name

if TYPE_CHECKING:
    from ingest.acting.cells import Cell
    from ingest.experiments.prompts import ReadPrompt
    from ingest.model.models import Model


@dataclass(frozen=True)
class Settings:
    sites: tuple[str, ...] = setting(STATES, help="sites whose states are restored", among=STATES)
    window: int = setting(10, help="layers of attn_out and ffn_out restored together; 1 for resid_post", least=1)
    every: int = setting(1, help="trace every n-th layer, from layer 0 on", least=1)
    deviations: float = setting(3.0, help="the noise's standard deviation, as a multiple of that of the subjects' embeddings", least=0.0)
    draws: int = setting(10, help="draws of noise, the same for every state", least=1, most=1000)


class Tracing(Kind):
    name = "tracing"
    help = "Which states, restored after noise on the subject, bring the answer back (causal tracing)."
    example = 'atlas experiment tracing "He knows that the capital of France is the city of" --subject France --answer " Paris" --db demo.duckdb'
    settings = Settings
    prompt = SubjectPrompt
    shipped = FACTS

    def plan(self, world: ExperimentContext, settings: Settings, prompts: Sequence[SubjectPrompt], seed: int) -> Plan:
        from ingest.acting.tracing import noise_deviation
        from ingest.experiments.prompts import prompt_tables, read_subjects

        read = read_subjects(world, prompts)
        subjects = [[one.prompt.token_ids[index] for index in one.subject or ()] for one in read]
        deviation = noise_deviation(world.model, subjects, settings.deviations)
        parts = [part(world.model, settings, i, one, deviation, seed) for i, one in enumerate(read)]
        return Plan(prompt_tables(world, read), parts, {"noise_deviation": deviation})


def part(model: "Model", settings: Settings, prompt_id: int, one: "ReadPrompt", deviation: float, seed: int) -> Part:
    """Plan the tracing of all states of one prompt."""
    from ingest.acting.cells import cells_of
    from ingest.experiments.costs import cost_of_cells

    cells = cells_of(windows(settings.sites, settings.window), range(0, model.n_layers, settings.every), len(one.prompt.token_ids))
    cost = Cost(0, 0) if one.note else cost_of_cells(model, one.prompt, cells, settings.draws)
    return Part(f"prompt {prompt_id}", cost, partial(trace_prompt, model, prompt_id, one, cells, deviation, settings.draws, seed))


def trace_prompt(
    model: "Model", prompt_id: int, one: "ReadPrompt", cells: "Sequence[Cell]", deviation: float, n_draws: int, seed: int, progress: Progress
) -> PartResult:
    from ingest.acting.tracing import trace
    from ingest.experiments.rows import of_prompt

    if one.note is not None or one.subject is None:
        return PartResult(note=one.note)
    found = trace(model, one.prompt, one.subject, deviation, cells, n_draws=n_draws, seed=seed, progress=progress)
    assert found is not None  # it was answered when it was planned
    note = "the noise covers index 0, where many models keep a state that no single restored state brings back" if found.is_first_noised else None
    return PartResult({"effect": of_prompt(found.effects, prompt_id)}, note)


KINDS = key_by_name(Tracing())
