"""Skip-trigrams of a head: source … destination → out, from its QK and OV circuits over the vocabulary, without computing all triples.

The score of a triple is f(source, destination)·g(source, out). For one source, the triple of the i-th best destination and the j-th best out has at least
i·j - 1 triples before it. The k best of all triples are therefore among each source's triples with i·j ≤ k.
Source: Elhage et al. 2021, one-layer attention-only transformers: skip-trigrams, and the bugs that result from the product.
"""

import json
from collections.abc import Callable, Iterable

import duckdb
import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ingest.model.models import Model
from ingest.model.ranking import top_k
from ingest.model.token_states import n_tokens
from ingest.recorders.distances import Distances, are_named, distance_settings, distances_of, read_context
from ingest.recorders.loaded_rows import source_counts, token_counts
from ingest.recorders.plans import Basis, CostSample, Plan, Work
from ingest.recorders.token_circuits import TokenCircuits, spread, token_circuits
from ingest.request import Request
from ingest.store.register import settings_of
from ingest.timing import measure_seconds
from ingest.workers.pool import Job, job
from ingest.workers.worker import Progress, Tables, Worker
from schema.errors import AtlasError
from schema.terms import HEAD_CIRCUITS, TAILS

N_KEPT = 10
"""Destinations and outs stored for each source."""

N_LARGEST = 100
"""Triples stored for each head and pair of tails."""

CHUNK = 256
"""Sources whose scores over the vocabulary are in memory at once."""

SIGNS = dict(zip(TAILS, (1, -1), strict=True))
COLUMNS = {"source": torch.int64, "destination": torch.int64, "out": torch.int64, "f": torch.float32, "g": torch.float32}


class Largest:
    """The N_LARGEST triples so far, by the modulus of the product of their two scores. The scores have the signs of two given tails.

    Sources are added in ascending order.
    """

    def __init__(self, of_f: str, of_g: str, device: torch.device) -> None:
        self.ends = (("qk", of_f), ("ov", of_g))
        self.rows = {name: torch.empty(0, dtype=dtype, device=device) for name, dtype in COLUMNS.items()}
        self.least = 0.0

    def add(self, sources: Tensor, scores: dict[str, Tensor], best: dict[tuple[str, str], Tensor]) -> None:
        """Add the triples of some sources.

        sources: [n]. scores: of each circuit, [n, m]. best: of each circuit and tail, the largest modulus among the scores of each source, [n].
        """
        # no other source has a triple among the largest, and they are few
        rows = torch.nonzero(best[self.ends[0]] * best[self.ends[1]] > self.least)[:, 0]
        if not len(rows):
            return
        (f, destinations), (g, outs) = (top_k(scores[circuit][rows] * SIGNS[tail], N_LARGEST) for circuit, tail in self.ends)
        places = torch.arange(1, f.shape[1] + 1, device=f.device)
        i, j = torch.nonzero(places.outer(places) <= N_LARGEST).T
        found = {"source": sources[rows, None].expand(-1, len(i)), "destination": destinations[:, i], "out": outs[:, j], "f": f[:, i], "g": g[:, j]}
        merged = {name: torch.cat((self.rows[name], x.flatten())) for name, x in found.items()}
        # exact: a product of two float32 fits in float64
        products, order = top_k((merged["f"].clamp_min(0).double() * merged["g"].clamp_min(0).double())[None], N_LARGEST)
        order = order[products > 0]
        self.rows = {name: x[order] for name, x in merged.items()}
        self.least = products[0, -1].item() if len(order) == N_LARGEST else 0.0


def head_tables(circuits: TokenCircuits, layer: int, head: int, n_sources: int, progress: Callable[[float], None]) -> dict[str, pa.Table]:
    """Compute the rows of `circuit_token`, `circuit_source` and `skip_trigram` of one head, for the first n_sources tokens as sources.

    progress: called with the share of the work done since the last call.
    """
    factors = {circuit: (rows[:n_sources], others) for circuit, (rows, others) in circuits.factors(head).items()}
    common, is_common = circuits.common, torch.zeros(len(circuits.counts), dtype=torch.float64, device=circuits.common.device)
    is_common[common] = 1
    compared = {circuit: (others - others.mean(0) if circuit == "ov" else others)[common] for circuit, (_, others) in factors.items()}
    largest = {(of_f, of_g): Largest(of_f, of_g, common.device) for of_f in TAILS for of_g in TAILS}
    kept: dict[str, list[tuple[Tensor, Tensor]]] = {circuit: [] for circuit in HEAD_CIRCUITS}
    for sources in torch.arange(n_sources, device=common.device).split(CHUNK):
        scores = {circuit: rows[sources] @ compared[circuit].T for circuit, (rows, _) in factors.items()}
        best: dict[tuple[str, str], Tensor] = {}
        for circuit, of_circuit in scores.items():
            values, places = top_k(of_circuit, N_KEPT)
            kept[circuit].append((values, common[places]))
            best |= {(circuit, TAILS[0]): values[:, 0], (circuit, TAILS[1]): -of_circuit.amin(1)}
        best = {end: modulus.clamp_min(0).double() * is_common[sources] for end, modulus in best.items()}
        for into in largest.values():
            into.add(sources, scores, best)
        progress(len(sources) / n_sources)
    of = {"layer": layer, "head": head}
    tokens, counts = common.cpu().numpy(), circuits.counts[:n_sources]
    return {
        "circuit_token": pa.concat_tables(token_rows(of, circuit, *map(torch.cat, zip(*kept[circuit], strict=True))) for circuit in HEAD_CIRCUITS),
        "circuit_source": pa.concat_tables(source_rows(of, circuit, counts, *spread(*factors[circuit])) for circuit in HEAD_CIRCUITS),
        "skip_trigram": pa.concat_tables(trigram_rows(of, tails, tokens, found.rows) for tails, found in largest.items()),
    }


def constant_columns(of: dict[str, int], n: int, **words: str) -> dict[str, object]:
    """Build the columns that are the same in each of n rows. of: layer and head."""
    return {**{name: np.full(n, number, np.int16) for name, number in of.items()}, **{name: pa.array([word] * n, pa.string()) for name, word in words.items()}}


def token_rows(of: dict[str, int], circuit: str, scores: Tensor, token_ids: Tensor) -> pa.Table:
    """Build the rows of `circuit_token`. scores, token_ids: [n_tokens, k]."""
    n, k = scores.shape
    return pa.table(
        {
            **constant_columns(of, n * k, circuit=circuit),
            "source_token_id": np.repeat(np.arange(n, dtype=np.int32), k),
            "rank": np.tile(np.arange(1, k + 1, dtype=np.int16), n),
            "token_id": token_ids.cpu().numpy().astype(np.int32).ravel(),
            "score": scores.cpu().numpy().ravel(),
        }
    )


def source_rows(of: dict[str, int], circuit: str, counts: np.ndarray, mean: Tensor, std: Tensor) -> pa.Table:
    """Build the rows of `circuit_source`. counts, mean, std: [n_tokens]."""
    return pa.table(
        {
            **constant_columns(of, len(mean), circuit=circuit),
            "source_token_id": np.arange(len(mean), dtype=np.int32),
            "n_source": counts,
            "mean": mean.float().cpu().numpy(),
            "std": std.float().cpu().numpy(),
        }
    )


def trigram_rows(of: dict[str, int], tails: tuple[str, str], common: np.ndarray, found: dict[str, Tensor]) -> pa.Table:
    """Build the rows of `skip_trigram` for a pair of tails. found: columns of the triples; destinations and outs are indices into `common`."""
    rows, n = {name: x.cpu().numpy() for name, x in found.items()}, len(found["f"])
    return pa.table(
        {
            **constant_columns(of, n, destination_tail=tails[0], out_tail=tails[1]),
            "rank": np.arange(1, n + 1, dtype=np.int16),
            "source_token_id": rows["source"].astype(np.int32),
            "destination_token_id": common[rows["destination"]].astype(np.int32),
            "out_token_id": common[rows["out"]].astype(np.int32),
            "destination_score": rows["f"] * np.float32(SIGNS[tails[0]]),
            "out_score": rows["g"] * np.float32(SIGNS[tails[1]]),
        }
    )


PROBED = 4
"""Chunks of sources that a dry run computes; the lists fill up in the first ones."""


class SkipTrigram(Work):
    """Plans and costs of the pass `skip_trigram`."""

    def check_model(self, request: Request, model: Model) -> None:
        for layer in request.options["skip_trigram"]:
            if layer >= model.n_layers:
                raise AtlasError(f"--skip-trigram {layer}: {model.name} has layers 0 to {model.n_layers - 1}")

    def note(self, basis: Basis) -> str | None:
        counts, least = token_counts(basis.con, n_tokens(basis.model)), basis.request.options["skip_trigram_seen"]
        distances, other = distance_settings(basis.con, basis.model, basis.request.context), []
        for layer in layers_of(basis.request):
            known, begun = source_counts(basis.con, layer), settings_of(basis.con, "skip_trigram", layer=layer)
            if len(known) and ((known != counts).any() or not are_named(distances, begun or {})):
                other.append(str(layer))
        if other:
            of = f"the skip-trigrams of layer {', '.join(other)} are based on the text and the distances that the atlas had when their run began"
            return f"note: {of}; to base them on what it has now, ingest into a new file"
        if (counts >= least).any():
            return None
        lacking = f"no token occurs {least} times in the atlas's text"
        return f"note: no skip_trigram: {lacking}; ingest again with more text (--corpus, --triggers), or with --skip-trigram-seen 0"

    def plans(self, basis: Basis) -> Iterable[Plan]:
        least = basis.request.options["skip_trigram_seen"]
        for layer in layers_of(basis.request):
            check_seen(basis.con, layer, least)
            # a run that goes on has the counts, and the distances, that it began with
            settings = settings_of(basis.con, "skip_trigram", layer=layer) or {
                **basis.request.weights_settings(),
                "layer": layer,
                "seen": least,
                **distance_settings(basis.con, basis.model, basis.request.context),
            }
            counts = source_counts(basis.con, layer)
            if not len(counts):
                counts = token_counts(basis.con, n_tokens(basis.model))
            of = {"layer": layer, "counts": counts, "least": least}

            def jobs(run_id: int, heads: list[int], of: dict = of, settings: dict = settings) -> Iterable[Job]:
                distances = distances_of(basis.con, basis.model, settings, of["layer"])
                return (job(run_id, head, compute, run_id=run_id, head=head, distances=distances, **of) for head in heads)

            if (counts >= least).any():
                yield Plan(settings, [1] * basis.model.n_heads, "heads", jobs)

    def rows(self, sample: CostSample) -> dict[str, int]:
        """Return an upper bound on the rows: with few frequent tokens in the text there are fewer."""
        heads, n = len(layers_of(sample.request)) * sample.model.n_heads, n_tokens(sample.model)
        rows = heads * len(HEAD_CIRCUITS) * n
        return {"circuit_token": rows * min(N_KEPT, n), "circuit_source": rows, "skip_trigram": heads * len(TAILS) ** 2 * N_LARGEST}

    def seconds(self, sample: CostSample) -> float:
        """Estimate an upper bound on the time: with few frequent tokens in the text it is less."""
        layers, found, n = layers_of(sample.request), [], n_tokens(sample.model)
        distances = Distances(read_context(sample.model, sample.request.context))
        circuits = measure_seconds(lambda: found.append(token_circuits(sample.model, layers[0], np.zeros(n, np.int64), 0, distances)))
        few = min(PROBED * CHUNK, n)
        head = measure_seconds(lambda: head_tables(found[0], layers[0], 0, few, lambda _: None)) * n / few
        return len(layers) * (circuits + sample.model.n_heads * head)


def layers_of(request: Request) -> list[int]:
    return sorted(set(request.options["skip_trigram"]))


def check_seen(con: duckdb.DuckDBPyConnection, layer: int, least: int) -> None:
    """Raise AtlasError if the atlas has skip-trigrams of the layer that were computed with another --skip-trigram-seen."""
    for run_id, settings in con.execute("SELECT r.run_id, r.settings FROM run AS r WHERE r.kind = 'skip_trigram'").fetchall():
        of = json.loads(settings)
        if of["layer"] == layer and of.get("seen") != least:
            raise AtlasError(
                f"--skip-trigram-seen {least}: run {run_id} has read layer {layer} with {of.get('seen')} instead. Use that number, or ingest into a new file."
            )


def compute(worker: Worker, progress: Progress, *, run_id: int, layer: int, head: int, counts: np.ndarray, least: int, distances: Distances | None) -> Tables:
    circuits = worker.shared_state(run_id, lambda: token_circuits(worker.model, layer, counts, least, distances))
    return head_tables(circuits, layer, head, len(counts), progress)
