"""The data that a suppression experiment takes from an atlas before any arm runs: values, arms, prompts and the text for the loss of arms."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import torch

from ingest.acting import word_lists
from ingest.acting.continuations import ContinuationSettings
from ingest.acting.decoding import Decoding
from ingest.acting.draws import seeded_hash
from ingest.acting.generation import require_room
from ingest.acting.perplexity import WINDOW, windows
from ingest.acting.places import shape_of
from ingest.acting.scorers import scorer
from ingest.acting.self_debias import DESCRIPTIONS
from ingest.acting.suppression import ConceptValue, PlannedArm, planned_arms
from ingest.acting.suppression_arm import Rows, SuppressionTrial
from ingest.acting.used_values import used_arm
from ingest.acting.word_filter import forms_of
from ingest.experiments.base import ExperimentContext, Tables
from ingest.experiments.prompts import PROMPT, PROMPT_TOKEN, token_rows
from ingest.live.engine import look_up
from ingest.live.prompt import cut_prompt
from ingest.text.sequences import Encoder, bos_token
from schema.errors import AtlasError
from schema.interventions.changes import change_rows
from schema.interventions.resolve import arm_sha256, canonical_json

if TYPE_CHECKING:
    from ingest.experiments.kinds.suppression import Settings, Template

VALUES = """
SELECT v.layer, v.neuron, v.sign
FROM values_for_concept($words, n := 1000000, min_tokens := $least) AS v
INNER JOIN neuron_statistics AS s ON v.layer = s.layer AND v.neuron = s.neuron
WHERE s.corpus_id = $corpus AND if(v.sign > 0, s.max > 0, s.min < 0)
ORDER BY v.n_tokens DESC, v.score DESC, v.layer, v.neuron, v.direction
LIMIT $n
"""
TEXTS = "SELECT d.text FROM document AS d WHERE d.corpus_id = $corpus ORDER BY d.document_id"

ARM = pa.schema([(name, pa.string()) for name in ("name", "role", "interventions", "sha256")] + [("arm_id", pa.int32()), ("draw", pa.int32())])
CHANGE = pa.schema(
    [(name, pa.int32()) for name in ("arm_id", "rank", "layer", "unit")]
    + [(name, pa.string()) for name in ("site", "op", "strength_kind", "positions")]
    + [(name, pa.float32()) for name in ("value", "strength", "sub_update_norm")]
    + [("is_first_skipped", pa.bool_())]
)


def unwanted_words(settings: "Settings") -> tuple[str, ...]:
    return settings.unwanted or word_lists.unwanted_words()


def plan_arms(world: ExperimentContext, settings: "Settings", seed: int) -> list[PlannedArm]:
    """Plan the arms. Raises AtlasError if no value promotes the words of the concept, or no value promotes the unwanted words."""
    concept = values_of(world, settings, "the concept", settings.concept or word_lists.shipped_lists()["concept"])
    opposite = values_of(world, settings, "the unwanted words", unwanted_words(settings))
    seeds = [seeded_hash(seed, settings.samples + draw) for draw in range(settings.draws)]
    return planned_arms(concept, opposite, settings.strengths, seeds, settings.corpus, shape_of(world.model), look_up(world.con))


def values_of(world: ExperimentContext, settings: "Settings", what: str, words: Sequence[str]) -> list[ConceptValue]:
    """Find the values that promote the words and whose coefficient has the needed sign somewhere in the corpus: that of a ReLU is never below 0.

    what: names the words in messages. Raises AtlasError if there is no such value.
    """
    asked = {"words": ",".join(words), "n": settings.values, "least": settings.min_tokens, "corpus": settings.corpus}
    found = [ConceptValue(*row) for row in world.con.execute(VALUES, asked).fetchall()]
    if not found:
        missing = f"no value that can be switched on by corpus {settings.corpus} has {settings.min_tokens} tokens of {what} among its 30"
        raise AtlasError(f"{missing}: give other words, or a smaller min_tokens")
    return found


def build_trial(world: ExperimentContext, settings: "Settings", prompts: Sequence["Template"], base: PlannedArm, seed: int) -> SuppressionTrial:
    """Build the trial. Windows of the text leave room for each description before them.

    Raises AtlasError for prompts that do not fit in the context, for a scorer that is not installed, and for a corpus without text.
    """
    clusters = [one.cluster for one in prompts]
    words = unwanted_words(settings)
    forms = forms_of(world.model.tokenizer, words)
    descriptions = settings.descriptions or DESCRIPTIONS
    longest = max(len(world.model.tokenizer(one, add_special_tokens=False).input_ids) for one in descriptions)
    decoding = Decoding("sample", settings.temperature, settings.top_p)
    how = ContinuationSettings(
        settings.new_tokens, tuple(seeded_hash(seed, sample) for sample in range(settings.samples)), decoding, forms, settings.debiasing, descriptions
    )
    scorers = [scorer(name, words) for name in settings.scorers]
    ids = [torch.from_numpy(cut_prompt(world.model, one.text, world.bos).sequences[0].token_ids).long() for one in prompts]
    require_room(world.model, longest + max(map(len, ids)), settings.new_tokens)
    window = min(WINDOW, (world.model.max_context or WINDOW + longest) - longest)
    text = windows(text_of(world, settings), window, bos_token(world.model.tokenizer, world.bos))
    return SuppressionTrial(world.model, ids, clusters, how, scorers, text, settings.text, look_up(world.con), base, seed)


def text_of(world: ExperimentContext, settings: "Settings") -> torch.Tensor:
    """Read the first tokens of the corpus `settings.text`, its documents joined by blank lines, [n_tokens]. Raises AtlasError for a corpus without text."""
    text = "\n\n".join(text for (text,) in world.con.execute(TEXTS, {"corpus": settings.text}).fetchall())
    if not text:
        raise AtlasError(f"corpus {settings.text} has no text on which to compute the loss of arms")
    _, found = Encoder(world.model.tokenizer).encode_start(text, settings.text_tokens)
    return torch.from_numpy(found.token_ids[: settings.text_tokens]).long()


def prompt_rows(world: ExperimentContext, prompts: Sequence["Template"]) -> Tables:
    has_bos = bos_token(world.model.tokenizer, world.bos) is not None
    rows: Rows = []
    tokens: Rows = []
    for prompt_id, one in enumerate(prompts):
        cut = cut_prompt(world.model, one.text, world.bos).sequences[0]
        rows.append({"prompt_id": prompt_id, "text": one.text, "cluster": one.cluster, "n_tokens": len(cut.token_ids), "has_bos": has_bos})
        tokens += token_rows(prompt_id, cut, None)
    return {"prompt": pa.Table.from_pylist(rows, PROMPT), "prompt_token": pa.Table.from_pylist(tokens, PROMPT_TOKEN)}


def arm_tables(world: ExperimentContext, arms: Sequence[PlannedArm]) -> Tables:
    norm = look_up(world.con)
    rows: Rows = []
    changes: Rows = []
    for arm_id, one in enumerate(arms):
        named = {"arm_id": arm_id, "name": one.name, "role": one.role, "draw": one.draw}
        rows.append({**named, "interventions": canonical_json(one.arm), "sha256": arm_sha256(one.arm)})
        for row in change_rows(used_arm(one.arm, world.model.dtype)):
            length = abs(row["value"]) * (norm("value_norm", row["layer"], row["unit"], None) or 0.0)
            changes.append({"arm_id": arm_id, **row, "sub_update_norm": length})
    return {"arm": pa.Table.from_pylist(rows, ARM), "arm_change": pa.Table.from_pylist(changes, CHANGE)}


def trial_facts(trial: SuppressionTrial) -> dict[str, Any]:
    """Collect the facts, besides the settings, on which the results depend."""
    return {
        "scorers": {one.name: one.version for one in trial.scorers},
        "n_forms": len(trial.how.forms),
        "n_text_tokens": sum(map(len, trial.text)),
        "window": max(map(len, trial.text)),
    }


def as_tables(found: dict[str, Rows]) -> Tables:
    return {name: pa.Table.from_pylist(rows) for name, rows in found.items() if rows}
