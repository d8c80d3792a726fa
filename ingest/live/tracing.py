"""Trace of a prompt at every position, unchanged (the base) and under arms: the tables of a trace, and whether each arm changed anything.

Base and arms are rows of one batch; an arm that changes no bit gets the base's own states.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ingest.acting.acting import apply_arms
from ingest.acting.places import shape_of
from ingest.acting.rows import resolved_rows
from ingest.acting.runs import wanted_sites
from ingest.live.apart import PredictionAttribution
from ingest.live.jobs import Tell
from ingest.model.hooks import KEY, RECORDED, LayerRecord, Listener, listen
from ingest.model.models import Model
from ingest.model.neighbours import check_places
from ingest.recorders.reading import flat, pad_sequences
from ingest.recorders.traces import RAW_SITES, TracedStates, TraceSettings, trace_tables
from ingest.text.sequences import CutDocument
from schema.errors import AtlasError
from schema.interventions.intervention import Arm
from schema.interventions.resolve import MOST_CHANGES, LookUp, n_changes, resolve
from schema.terms import SITES, STREAM_SITES

MOST_LOGITS = 1 << 24
"""Most logits in memory at once."""

N_COEFFICIENTS = 100


@dataclass(frozen=True, eq=False)
class TracedPrompt:
    """A traced prompt. arms: the resolved arms. is_as_base: for each arm, whether it changed no bit. states: those of the prompt, then those of each arm.

    last: resid_post of the last layer, [1 + arms, seq, d_model].
    """

    arms: tuple[Arm, ...]
    is_as_base: tuple[bool, ...]
    states: TracedStates
    last: Tensor


def resolved_arms(model: Model, arms: Sequence[Arm], look_up: LookUp, tell: Tell) -> tuple[Arm, ...]:
    """Resolve arms for this model.

    Raises AtlasError for anything that the model or the atlas does not have, for states of another prompt, for a vector given by its SHA-256, and for arms with
    more than MOST_CHANGES changes in total.
    """
    found: tuple[Arm, ...] = ()
    for arm in arms:
        tell("reading the arms", len(found) / len(arms))
        found += (resolve(arm, shape_of(model), look_up),)
        if sum(n_changes(change) for each in found for change in each) > MOST_CHANGES:
            raise AtlasError(
                f"the arms make more than {MOST_CHANGES:,} changes, each of one unit at one range of positions; give fewer arms, units or positions"
            )
    if others := sorted(prompt for prompt in wanted_sites(found) if prompt):
        raise AtlasError(f"an arm takes states of prompt {others[0]}; the only prompt is 0, the live one")
    if any(change.vector is not None for arm in found for change in arm):
        raise AtlasError("an arm names a vector by its SHA-256; the model process stores no vectors, so add a value (add_value) or patch a state instead")
    return found


def n_runs(arms: Sequence[Arm]) -> int:
    """Count the runs of the unchanged prompt from which arms take states; each is stored like a row of the batch."""
    return len(wanted_sites(arms))


def read_prompts(model: Model, prompts: Sequence[CutDocument], arms: tuple[Arm, ...], tell: Tell, apart: PredictionAttribution | None = None) -> TracedPrompt:
    """Run one forward pass over the prompt and its arms. apart: an attribution that records the same pass.

    Raises AtlasError if memory does not suffice, or if the states of the unchanged prompt do not satisfy the identities of each layer.
    """
    sequences = tuple(prompt.sequences[0] for prompt in prompts)
    ids, batch = pad_sequences(sequences, model.input_device)
    n = ids.shape[1]
    assigned = resolved_rows(model, {0: ids[0]}, 0, arms, {})
    # filled layer by layer: records that are put together at the end are held twice
    kept: dict[str, Tensor] = {}
    share = 0.0

    def take(layer: int, record: LayerRecord) -> None:
        nonlocal share
        for name in RECORDED:
            if name not in kept:
                kept[name] = record[name].new_empty((model.n_layers, *record[name].shape))
            kept[name][layer] = record[name]
        share = (layer + 1) / model.n_layers
        tell("forward pass", share)

    heard = apart.listeners(batch) if apart is not None else []
    # the identities were checked on short texts when the model was loaded, and this text may be longer than those of any ingest; a text beside it cannot
    # change its numbers: it is read alone, its arms are as long, and nothing is padded
    proof = Listener(frozenset({*RECORDED, KEY}), partial(check_places, model), lambda x: x[:1].flatten(0, 1).to(model.device))
    try:
        with (
            apply_arms(model, assigned, lambda: tell("forward pass", share)) as acted,
            listen(model, [Listener(frozenset(RECORDED), take, partial(on_device, model)), proof, *heard]),
        ):
            model.backbone(ids)
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise AtlasError(f"there is not enough memory for a prompt of {n:,} tokens under {len(arms)} arms: give fewer tokens or fewer arms") from error
    same = tuple(row not in acted.changed for row in range(1, len(prompts)))
    sites = {site: kept[site] for site in SITES}
    states = as_base(TracedStates(sites, kept["coefficient"], kept["ffn_scale"], batch.position_ids, batch.next_token_ids), same, n)
    return TracedPrompt(arms, same, states, states.sites["resid_post"][-1].unflatten(0, (len(prompts), n)))


@torch.inference_mode()
def as_base(states: TracedStates, same: tuple[bool, ...], n: int) -> TracedStates:
    """Replace the states of arms that changed nothing with the base's own, so that not even rounding differs. n: positions of the prompt."""
    for k, is_same in enumerate(same, start=1):
        if is_same:
            for of in (*states.sites.values(), states.coefficients, states.ffn_scale):
                of[:, k * n : (k + 1) * n] = of[:, :n]
    return states


def on_device(model: Model, x: Tensor) -> Tensor:
    """Flatten [batch, seq, width] to [batch·seq, width] float32 on the model's device."""
    return flat(x).to(model.device).float()


def traced_tables(model: Model, traced: TracedPrompt, value_tops: np.ndarray, tell: Tell) -> Iterator[dict[str, pa.Table]]:
    """Yield the rows of a trace's tables, one range of positions at a time."""
    settings = TraceSettings(STREAM_SITES, N_COEFFICIENTS, 0)
    n = len(traced.states.position_ids)
    size = max(1, MOST_LOGITS // (model.d_vocab * (len(SITES) + len(RAW_SITES))))
    done = 0.0

    def progress(share: float, of: int) -> None:
        nonlocal done
        done += share * of
        tell("logit lens and sub-updates", done / n)

    for start in range(0, n, size):
        states = select_states(traced.states, slice(start, start + size))
        with torch.inference_mode():
            tables = trace_tables(model, states, value_tops, -1, settings, partial(progress, of=len(states.position_ids)))
        yield tables


def select_states(states: TracedStates, rows: slice) -> TracedStates:
    return TracedStates(
        {site: of[:, rows] for site, of in states.sites.items()},
        states.coefficients[:, rows],
        states.ffn_scale[:, rows],
        states.position_ids[rows],
        states.next_token_ids[rows],
    )
