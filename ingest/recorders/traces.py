"""The trace of sampled positions: residual states, the logit lens at every site, coefficients, sub-updates and their scores.

Sources: Geva et al. 2022, sections 3 to 5 (sub-updates, promotion, elimination); Geva et al. 2021, section 5 (agreement).
All arithmetic here is float32, whatever the dtype of the forward pass.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ingest.model.models import Model
from ingest.model.ranking import rank_of, top_k
from ingest.recorders.lens import Lens, constant_column, floats, ints, next_token_column, pick_values, read_lens
from ingest.text.contexts import mix
from schema.terms import SITES

N_SUB_UPDATES = 10

RAW_SITES = ("ffn_out", "resid_post")
"""Sites whose top token by the raw projection is stored as well."""


@dataclass(frozen=True)
class TracedStates:
    """States, coefficients and scales of a forward pass at n traced positions.

    sites: site → [n_layers, n, d_model]; coefficients: [n_layers, n, d_ffn]; ffn_scale: [n_layers, n], the factor between
    coefficient times value and sub-update (1 unless a norm follows the FFN). position_ids, next_token_ids: [n], -1 for no next token.
    """

    sites: dict[str, Tensor]
    coefficients: Tensor
    ffn_scale: Tensor
    position_ids: np.ndarray
    next_token_ids: np.ndarray


@dataclass(frozen=True)
class TraceSettings:
    """Settings of a trace: the sites whose vectors are stored, the number of coefficients stored per position and layer, and the seed."""

    vector_sites: tuple[str, ...]
    n_coefficients: int
    seed: int


class Rows:
    """Collector of rows. It takes columns for a table name, and joins all columns of a name into one Arrow table."""

    def __init__(self) -> None:
        self.parts: dict[str, list[pa.Table]] = defaultdict(list)

    def add(self, table: str, **columns: object) -> None:
        self.parts[table].append(pa.table(columns))

    def tables(self) -> dict[str, pa.Table]:
        return {name: pa.concat_tables(parts) for name, parts in self.parts.items()}


def trace_tables(
    model: Model, states: TracedStates, value_tops: np.ndarray, run_id: int, settings: TraceSettings, progress: Callable[[float], None]
) -> dict[str, pa.Table]:
    """Compute all rows of the traced positions.

    value_tops: top token of every value, [n_layers, d_ffn]; progress: called with shares of the whole.
    """
    rows, n = Rows(), len(states.position_ids)
    # blocks of this size cost more to map than to fill, and new ones in every layer would fragment the heap by gigabytes
    space = states.sites["resid_post"].new_empty((len(SITES) + 2) * n, model.d_vocab)
    projected, scratch = space[2 * n :], space[: 2 * n].view(2, n, -1)
    last = model.lens(states.sites["resid_post"][-1], out=projected[:n])
    final = last.argmax(-1)
    add_trace(rows, states, last, final, run_id)
    lenses: dict[str, Lens] = {}
    for layer in range(model.n_layers):
        former = {"resid_pre": lenses["resid_post"]} if layer and is_stream_handed_on(states, layer) else {}
        sites = [site for site in SITES if site not in former]
        # all sites in one product: the output embedding is read once for them
        product = model.lens(torch.cat([states.sites[site][layer] for site in sites]), out=projected[: len(sites) * n])
        logits = dict(zip(sites, product.chunk(len(sites)), strict=True))
        lenses = former | {site: read_lens(logits[site], final, states.next_token_ids, scratch) for site in sites}
        for site in SITES:
            add_lens(rows, states, layer, site, lenses[site])
        tops = {site: lens.top for site, lens in lenses.items()}
        add_vectors(rows, states, layer, settings.vector_sites)
        rank = rank_of(logits["resid_post"], tops["resid_mid"])
        raw = raw_tops(model, states, layer, scratch)
        add_sub_updates(rows, model, states, layer, final, tops, raw, rank, value_tops[layer], settings)
        progress(1 / model.n_layers)
    return rows.tables()


def is_stream_handed_on(states: TracedStates, layer: int) -> bool:
    """Tell whether a layer's resid_pre is the resid_post of the layer before, to the bit, so that both have the same logit lens."""
    return torch.equal(states.sites["resid_pre"][layer], states.sites["resid_post"][layer - 1])


def join_states(parts: list[TracedStates]) -> TracedStates:
    """Join the states of several forward passes into one."""
    return TracedStates(
        {site: torch.cat([p.sites[site] for p in parts], 1) for site in SITES},
        torch.cat([p.coefficients for p in parts], 1),
        torch.cat([p.ffn_scale for p in parts], 1),
        np.concatenate([p.position_ids for p in parts]),
        np.concatenate([p.next_token_ids for p in parts]),
    )


def raw_tops(model: Model, states: TracedStates, layer: int, scratch: Tensor) -> dict[str, Tensor]:
    """Find the top tokens by the raw projection E·z, as for values, at the sites that values are compared with (RAW_SITES).

    scratch: as in `read_lens`.
    """
    projected = model.unembed(torch.cat([states.sites[site][layer] for site in RAW_SITES]), out=scratch.flatten(0, 1))
    return {site: top_k(logits, 1)[1][:, 0] for site, logits in zip(RAW_SITES, projected.chunk(len(RAW_SITES)), strict=True)}


def add_trace(rows: Rows, states: TracedStates, logits: Tensor, final: Tensor, run_id: int) -> None:
    following = torch.from_numpy(np.maximum(states.next_token_ids, 0)).to(final)
    probs = logits.softmax(-1)
    rows.add(
        "trace",
        run_id=np.full(len(final), run_id, np.int32),
        position_id=states.position_ids,
        final_token_id=ints(final),
        final_prob=floats(pick_values(probs, final)),
        next_token_prob=next_token_column(states.next_token_ids, pick_values(probs, following)),
        next_token_rank=next_token_column(states.next_token_ids, rank_of(logits, following).int()),
    )


def add_lens(rows: Rows, states: TracedStates, layer: int, site: str, lens: Lens) -> None:
    """Add the rows of the logit lens at one layer and site."""
    k = lens.n_tokens
    rows.add("logit_lens", **place(states, layer, site), **lens.whole)
    rows.add(
        "logit_lens_token",
        position_id=np.repeat(states.position_ids, k),
        layer=np.full(len(lens.top) * k, layer, np.int16),
        site=constant_column(site, len(lens.top) * k),
        **lens.tokens,
    )


def add_vectors(rows: Rows, states: TracedStates, layer: int, sites: tuple[str, ...]) -> None:
    """Add the vectors of the chosen sites. resid_pre is stored for layer 0 only, since in later layers it is the resid_post of the layer before."""
    for site in sites:
        if site != "resid_pre" or layer == 0:
            vectors = states.sites[site][layer].float().cpu().numpy()
            array = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
            rows.add("residual_state", **place(states, layer, site), vector=array)


def add_sub_updates(
    rows: Rows, model: Model, states: TracedStates, layer: int, final: Tensor, tops: dict[str, Tensor], raw: dict[str, Tensor],
    candidate_rank: Tensor, value_tops: np.ndarray, settings: TraceSettings,
) -> None:  # fmt: skip
    """Add coefficients, totals, and the dominant and random sub-updates of one layer at every traced position."""
    values, n = model.values(layer), len(final)
    m = states.coefficients[layer].float()
    norms = m.abs() * values.norm(dim=1) * states.ffn_scale[layer, :, None]
    best, order = top_k(norms, max(settings.n_coefficients, N_SUB_UPDATES))
    kept = order[:, : settings.n_coefficients]
    rows.add(
        "coefficient",
        position_id=np.repeat(states.position_ids, kept.shape[1]),
        layer=np.full(kept.numel(), layer, np.int16),
        neuron=ints(kept).ravel(),
        coefficient=floats(m.gather(1, kept)).ravel(),
        sub_update_norm=floats(best[:, : settings.n_coefficients]).ravel(),
    )
    # an inactive value's agrees with nothing
    active_tops = torch.from_numpy(value_tops).to(m.device).expand(n, -1).masked_fill(m <= 0, -1)
    rows.add(
        "layer_activity",
        position_id=states.position_ids,
        layer=np.full(n, layer, np.int16),
        n_active=ints((m > 0).sum(1)),
        sub_update_norm_total=floats(norms.sum(1)),
        sub_update_norm_dominant=floats(best[:, :N_SUB_UPDATES].sum(1)),
        raw_ffn_token_id=ints(raw["ffn_out"]),
        raw_block_token_id=ints(raw["resid_post"]),
        n_agreeing_values_raw=ints((active_tops == raw["ffn_out"][:, None]).sum(1)),
        n_agreeing_values_block_raw=ints((active_tops == raw["resid_post"][:, None]).sum(1)),
        n_agreeing_values=ints((active_tops == tops["ffn_out"][:, None]).sum(1)),
        n_agreeing_values_block=ints((active_tops == tops["resid_post"][:, None]).sum(1)),
        candidate_rank_after=ints(candidate_rank),
    )
    dominant = order[:, :N_SUB_UPDATES]
    others = torch.from_numpy(random_others(states.position_ids, layer, dominant.cpu().numpy(), m.shape[1], settings.seed)).to(m.device)
    others = others.gather(1, norms.gather(1, others).argsort(dim=1, descending=True, stable=True))
    for selection, neurons in (("dominant", dominant), ("random", others)):
        add_scores(rows, model, states, layer, selection, neurons, values, norms, tops["resid_mid"], final)


def add_scores(
    rows: Rows, model: Model, states: TracedStates, layer: int, selection: str, neurons: Tensor, values: Tensor, norms: Tensor,
    candidate: Tensor, final: Tensor,
) -> None:  # fmt: skip
    """Add the scores of chosen neurons [n, k] for three tokens w: the candidate, the final and the next token.

    The raw score is m_i·(e_w·v_i); with the final norm frozen, the score is what m_i·v_i adds to the logit of w.
    """
    n, k = neurons.shape
    m = states.coefficients[layer].float().gather(1, neurons)
    updates = values[neurons] * (m * states.ffn_scale[layer, :, None])[..., None]
    following = torch.from_numpy(np.maximum(states.next_token_ids, 0)).to(final)
    words, scale = torch.stack([candidate, final, following], 1), model.final_scale(states.sites["resid_post"][-1])
    readers = torch.cat([model.unembedding[words], model.logit_readers(words) / scale[:, None, None]], 1)
    scores, ends = torch.einsum("nkd,nwd->wnk", updates, readers), np.repeat(states.next_token_ids < 0, k)
    rows.add(
        "sub_update",
        position_id=np.repeat(states.position_ids, k),
        layer=np.full(n * k, layer, np.int16),
        selection=constant_column(selection, n * k),
        rank=np.tile(np.arange(1, k + 1, dtype=np.int16), n),
        neuron=ints(neurons).ravel(),
        coefficient=floats(m).ravel(),
        sub_update_norm=floats(norms.gather(1, neurons)).ravel(),
        candidate_score=floats(scores[0]).ravel(),
        final_score=floats(scores[1]).ravel(),
        next_score=pa.array(floats(scores[2]).ravel(), mask=ends),
        candidate_frozen_score=floats(scores[3]).ravel(),
        final_frozen_score=floats(scores[4]).ravel(),
        next_frozen_score=pa.array(floats(scores[5]).ravel(), mask=ends),
    )


def random_others(position_ids: np.ndarray, layer: int, dominant: np.ndarray, d_ffn: int, seed: int) -> np.ndarray:
    """Draw N_SUB_UPDATES neurons per position, uniformly among those not dominant: those with the smallest hash of (seed, position, layer, neuron).

    dominant: [n, k]. Returns [n, min(N_SUB_UPDATES, d_ffn - k)] int64. The draw depends on nothing else, so it is the same in any shard, order or batch.
    """
    at_position = mix(position_ids.astype(np.uint64) ^ mix(np.full(1, seed, np.int64).astype(np.uint64) * np.uint64(1000003) + np.uint64(layer)))
    keys = mix(at_position[:, None] + np.arange(d_ffn, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    np.put_along_axis(keys, dominant, np.iinfo(np.uint64).max, 1)
    return np.argsort(keys, axis=1, kind="stable")[:, : min(N_SUB_UPDATES, d_ffn - dominant.shape[1])]


def place(states: TracedStates, layer: int, site: str) -> dict[str, object]:
    n = len(states.position_ids)
    return {"position_id": states.position_ids, "layer": np.full(n, layer, np.int16), "site": constant_column(site, n)}
