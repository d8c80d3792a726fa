"""Activation patching between two prompts of equal length (Zhang and Nanda 2023): which states carry the difference between the prompts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ingest.experiments.base import ExperimentContext, Kind, Part, PartResult, Plan, Progress
from ingest.experiments.prompt_types import STATES, windows
from schema.fields import setting
from schema.registry import key_by_name

if TYPE_CHECKING:
    from ingest.acting.cells import Cell
    from ingest.experiments.prompts import ReadPrompt
    from ingest.model.models import Model

DIRECTIONS = ("denoising", "noising")


@dataclass(frozen=True)
class Settings:
    sites: tuple[str, ...] = setting(STATES, help="sites whose states are replaced", among=STATES)
    window: int = setting(
        1, help="layers of attn_out and ffn_out replaced together; 1 for resid_post. More layers show effects more often, but less precisely where", least=1
    )
    every: int = setting(1, help="patch every n-th layer, from layer 0 on", least=1)
    directions: tuple[str, ...] = setting(DIRECTIONS, help="denoising: clean states into the corrupted run; noising: the other way", among=DIRECTIONS)


@dataclass(frozen=True)
class PairPrompt:
    text: str = setting(help="the clean text")
    corrupted: str = setting(help="the corrupted text, of as many tokens")
    answer: str | None = setting(None, help="answer to the clean text: one token, with the space before it")
    foil: str | None = setting(None, help="answer to the corrupted text: one token, with the space before it")
    cluster: str | None = setting(None, help="template of the pair: pairs of one template count as one observation")


class Patching(Kind):
    name = "patching"
    help = "Which states carry the difference between two prompts of equal length (activation patching)."
    example = (
        'atlas experiment patching "He lives in Paris, the capital of" --corrupted "He lives in Rome, the capital of" '
        '--answer " France" --foil " Italy" --db demo.duckdb'
    )
    settings = Settings
    prompt = PairPrompt

    def plan(self, world: ExperimentContext, settings: Settings, prompts: Sequence[PairPrompt], seed: int) -> Plan:
        from ingest.experiments.pairs import read_pair
        from ingest.experiments.prompts import prompt_tables

        pairs = [read_pair(world, i, one.text, one.corrupted, one.answer, one.foil, one.cluster) for i, one in enumerate(prompts)]
        parts = [part(world.model, settings, i, pair, direction) for i, pair in enumerate(pairs) for direction in dict.fromkeys(settings.directions)]
        return Plan(prompt_tables(world, [one for pair in pairs for one in pair]), parts)


def part(model: "Model", settings: Settings, place: int, pair: "tuple[ReadPrompt, ReadPrompt]", direction: str) -> Part:
    """Plan one pair in one direction. The pair's clean prompt has prompt_id 2·place, and its corrupted prompt the next one."""
    from ingest.acting.cells import cells_of
    from ingest.experiments.costs import cost_of_cells

    cells = cells_of(windows(settings.sites, settings.window), range(0, model.n_layers, settings.every), len(pair[0].prompt.token_ids))
    acted = 1 if direction == "denoising" else 0
    cost = cost_of_cells(model, pair[0].prompt, cells, 1)
    return Part(f"pair {place}, {direction}", cost, partial(patch_pair, model, place, pair, acted, cells))


def patch_pair(model: "Model", place: int, pair: "tuple[ReadPrompt, ReadPrompt]", acted: int, cells: "Sequence[Cell]", progress: Progress) -> PartResult:
    import pyarrow as pa

    from ingest.acting.patching import LEAST, patch
    from ingest.experiments.rows import of_prompt

    own, donor = pair[acted], pair[1 - acted]
    found = patch(model, own.prompt.input_ids, donor.prompt.input_ids, own.answer, cells, progress)
    source = pa.repeat(pa.scalar(2 * place + 1 - acted, pa.int32()), found.effects.num_rows)
    rows = of_prompt(found.effects, 2 * place + acted).append_column(pa.field("from_prompt_id", pa.int32()), source)
    apart = abs(float(found.donor[1] - found.own[1]))
    note = None if apart >= LEAST else f"the prompts' logit differences are {apart:.2f} apart, less than {LEAST:g}, so that effects are null"
    return PartResult({"effect": rows}, note)


KINDS = key_by_name(Patching())
