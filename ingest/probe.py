"""`--dry-run`: what an ingest would write and how long it would take, from a survey of the corpus and a timed probe."""

import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from ingest.map_probe import map_row_counts, probe_map
from ingest.model.checks import check_identities
from ingest.model.device import enough_memory
from ingest.model.models import Model, load_model
from ingest.notes import cut_texts
from ingest.paper_probe import paper_rows, probe_paper, timed
from ingest.recorders.torch_keys import new_keys
from ingest.recorders.traces import N_LENS_TOKENS, N_SUB_UPDATES, TraceSettings, joined, trace_tables
from ingest.recorders.values import N_NEIGHBOURS, N_TOKENS, all_unit_values, weight_tables
from ingest.refusals import check_target
from ingest.request import Request
from ingest.run import cut_corpus, survey_corpus
from ingest.text.corpora import Corpus
from ingest.text.sequences import Sequence
from ingest.text.survey import Survey
from ingest.workers.worker import batches, n_tokens, sweep_batch, trace_batch
from schema.terms import SITES

BYTES_PER_ROW = {
    "neuron": 40, "value_token": 11, "value_neighbour": 7, "neuron_statistics": 143, "trigger": 21, "position": 8, "trace": 40,
    "logit_lens": 40, "logit_lens_token": 11, "coefficient": 12, "layer_activity": 24, "sub_update": 28,
    "removal": 6, "next_token_rank": 13, "control_token": 13, "value_cluster": 5, "map_point": 14,
}  # fmt: skip
"""Measured in published snapshots over the annual messages: SmolLM2-135M, those of --paper a ReLU model of 5 layers.
A residual state takes 4 bytes a dimension. A trigger takes 7 bytes, and 34 more among the first 20 of its tail: 21 on average of 50."""


def dry_run_report(request: Request) -> str:
    """Load the model, survey the corpus, time a probe of each pass; write nothing to the target. Returns the report."""
    check_target(request)
    with enough_memory(request.device):
        return probed(request)


def probed(request: Request) -> str:
    model = load_model(request.model, revision=request.revision, dtype=request.dtype, device=request.device)
    check_identities(model)
    rows, seconds, seen = row_counts(model, request, None), {"weights": probe_weights(model)}, None
    if request.corpus is not None:
        with tempfile.TemporaryDirectory() as spool:
            corpus = request.open_corpus(Path(spool))
            seen = survey_corpus(corpus, model, request, 0)
            rows = row_counts(model, request, seen)
            sequences = first_sequences(corpus, model, request)
        if request.triggers:
            seconds["sweep"] = probe_sweep(model, sequences, request.kept_triggers(seen.n_positions), request.batch_size) * seen.n_positions
        if request.trace:
            seconds["trace"] = probe_trace(model, sequences, request) * len(seen.sample)
        if request.paper:
            seconds["paper"] = probe_paper(model, sequences, request, seen)
    if request.map:
        seconds["map"] = probe_map(model, seen)
    return report(model, seen, rows, seconds)


def row_counts(model: Model, request: Request, seen: Survey | None) -> dict[str, int]:
    """Rows each table will have."""
    neurons, layers = model.n_layers * model.d_ffn, model.n_layers
    rows = {"neuron": neurons, "value_token": 2 * N_TOKENS * neurons, "value_neighbour": N_NEIGHBOURS * neurons, **map_row_counts(model, request, seen)}
    if seen is None:
        return rows
    rows["position"] = seen.n_positions
    if request.triggers:
        rows |= {"neuron_statistics": neurons, "trigger": 2 * neurons * request.kept_triggers(seen.n_positions)}
    if seen.sample:
        stored = 1 + layers * (len(request.vector_sites) - 1)
        at_layer = {
            "logit_lens": len(SITES), "logit_lens_token": len(SITES) * N_LENS_TOKENS, "coefficient": min(request.coefficients, model.d_ffn),
            "layer_activity": 1, "sub_update": 2 * N_SUB_UPDATES,
        }  # fmt: skip
        traced = {"trace": 1, "residual_state": stored, **{table: n * layers for table, n in at_layer.items()}}
        rows |= {table: n * len(seen.sample) for table, n in traced.items()}
    if request.paper:
        rows |= paper_rows(model, request, seen)
    return rows


def first_sequences(corpus: Corpus, model: Model, request: Request) -> list[Sequence]:
    """Sequences for three batches, from the start of the corpus; fewer if it is smaller."""
    found: list[Sequence] = []
    for document in cut_corpus(corpus, model, request, 0):
        found.extend(document.sequences)
        if len(found) >= 3 * request.batch_size:
            break
    return found[: 3 * request.batch_size]


def probe_weights(model: Model) -> float:
    """Seconds for the static tables, from one layer."""
    units: list = []
    return timed(lambda: units.extend(all_unit_values(model))) + model.n_layers * timed(lambda: weight_tables(model, 0, units))


def probe_sweep(model: Model, sequences: list[Sequence], k: int, batch_size: int) -> float:
    """Seconds a position of the sweep: the last of up to three batches, when the first filling of the top-k is over."""
    keys, seconds = new_keys(model, k), 0.0
    for batch in batches(sequences, batch_size):
        seconds = timed(partial(sweep_batch, model, keys, batch, lambda _: None)) / sum(map(n_tokens, batch))
    return seconds


def probe_trace(model: Model, sequences: list[Sequence], request: Request) -> float:
    """Seconds a position of the trace: one forward pass for the eighth of a batch, and everything computed of the positions."""
    batch = tuple(sequences[: request.batch_size])
    sample = np.array([s.first_position_id + len(s.token_ids) - 1 for s in batch])
    settings = TraceSettings(request.vector_sites, request.coefficients, request.seed)
    value_tops = np.zeros((model.n_layers, model.d_ffn), np.int64)
    return timed(lambda: trace_tables(model, joined(list(trace_batch(model, batch, sample))), value_tops, 0, settings)) / len(sample)


def report(model: Model, seen: Survey | None, rows: dict[str, int], seconds: dict[str, float]) -> str:
    """The dry run as plain text."""
    size = {table: n * BYTES_PER_ROW.get(table, 4 * model.d_model) for table, n in rows.items()}
    lines = [f"{model.name}: {model.n_layers} layers of {model.d_ffn} neurons, d_model {model.d_model}, vocabulary {model.d_vocab}"]
    if seen:
        blank = f" ({seen.n_blank_documents} blank)" if seen.n_blank_documents else ""
        lines.append(f"{seen.n_documents:,} documents{blank}, {seen.n_sequences:,} sequences, {seen.n_positions:,} tokens, {len(seen.spans)} sweep shards")
        lines += [note] if (note := cut_texts(seen)) else []
    lines += ["", f"{'table':<20}{'rows':>15}{'MB':>10}"]
    lines += [f"{table:<20}{n:>15,}{size[table] / 1e6:>10.1f}" for table, n in rows.items()]
    lines += [f"{'total':<20}{sum(rows.values()):>15,}{sum(size.values()) / 1e6:>10.1f}", ""]
    lines += [f"{name:<20}{clock(s):>15}" for name, s in seconds.items()]
    lines.append(f"{'ETA':<20}{clock(sum(seconds.values())):>15}  (loading the model and publishing not counted)")
    return "\n".join(lines)


def clock(seconds: float) -> str:
    return f"{int(seconds // 3600)}:{int(seconds // 60) % 60:02d}:{int(seconds) % 60:02d}"
