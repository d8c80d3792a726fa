"""Attention knockout (Geva et al. 2023, section 5): which tokens the last position must read, layer by layer."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ingest.experiments.base import Cost, ExperimentContext, Kind, Part, PartResult, Plan, Progress
from ingest.experiments.prompt_types import FACTS, SubjectPrompt
from schema.fields import setting
from schema.registry import key_by_name

if TYPE_CHECKING:
    from ingest.experiments.prompts import ReadPrompt
    from ingest.model.models import Model


@dataclass(frozen=True)
class Settings:
    window: int = setting(9, help="layers in which reading is blocked together", least=1)


class Knockout(Kind):
    name = "knockout"
    help = "Which tokens the last position must read, layer by layer (attention knockout)."
    example = 'atlas experiment knockout "He knows that the capital of France is the city of" --subject France --answer " Paris" --db demo.duckdb'
    settings = Settings
    prompt = SubjectPrompt
    shipped = FACTS

    def plan(self, world: ExperimentContext, settings: Settings, prompts: Sequence[SubjectPrompt], seed: int) -> Plan:
        from ingest.experiments.prompts import prompt_tables, read_subjects

        read = read_subjects(world, prompts)
        return Plan(prompt_tables(world, read), [part(world.model, settings.window, i, one) for i, one in enumerate(read)])


def part(model: "Model", window: int, prompt_id: int, one: "ReadPrompt") -> Part:
    from ingest.acting.knockout import blocked_cells
    from ingest.experiments.costs import cost_of_changes
    from schema.errors import AtlasError

    try:
        _, changes = blocked_cells(model, one.prompt, one.subject or range(0), window)
    except AtlasError as error:
        raise AtlasError(f"prompt {prompt_id}: {error}") from None
    cost = Cost(0, 0) if one.note else cost_of_changes(model, one.prompt, changes, 1, 1)
    return Part(f"prompt {prompt_id}", cost, partial(knock_out_prompt, model, window, prompt_id, one))


def knock_out_prompt(model: "Model", window: int, prompt_id: int, one: "ReadPrompt", progress: Progress) -> PartResult:
    from ingest.acting.knockout import knock_out
    from ingest.experiments.rows import of_prompt

    if one.note is not None or one.subject is None:
        return PartResult(note=one.note)
    found = knock_out(model, one.prompt, one.subject, progress, window)
    return PartResult({"effect": of_prompt(found.effects, prompt_id)})


KINDS = key_by_name(Knockout())
