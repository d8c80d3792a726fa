"""How well a model of attention alone predicts with paths through few of its heads (Elhage et al. 2021, term importance analysis).

Attention patterns are held as the model has them. Run 0 adds nothing of any head to the stream, run n what heads wrote in run n - 1: so in run n predictions
come from paths through at most n heads, and with as many as there are layers from all. Norms are computed anew from what is in the stream, and what a layer
adds beside its heads, its bias, is there in every run.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ingest.model.heads import head_outputs, layer_heads, pattern
from ingest.model.hooks import CONTEXT, LayerRecord
from ingest.model.models import Model
from ingest.model.modules import in_float32
from ingest.recorders.base import Batch
from ingest.recorders.probes import LossRecorder
from ingest.recorders.reading import batches, n_tokens, read_batch
from ingest.text.sequences import Sequence as TokenSequence
from ingest.workers.worker import Progress

Term = tuple[str, int | None, int | None]
"""Columns term, most_heads and layer."""


def writes_by_ffn(model: Model) -> int | None:
    """The first layer whose FFN writes anything to the stream; None in a model of attention alone."""

    def is_silent(layer: int) -> bool:
        bias = model.ffn_bias(layer)
        return not model.values(layer).any() and (bias is None or not bias.any())

    return next((layer for layer in range(model.n_layers) if not is_silent(layer)), None)


def added(model: Model, layer: int, heads: Tensor) -> Tensor:
    """What attention adds to the stream where its heads write `heads` together, [1, seq, d_model]."""
    bias, after = layer_heads(model, layer).b_o, model.architecture.attention.after_norm
    found = heads if bias is None else heads + bias
    normed: Tensor = found if after is None else in_float32(model.layer_module(layer, after), model.device)(found)
    return normed * model.residual_multiplier


def streams(model: Model, embedded: Tensor, heads: Sequence[Tensor]) -> list[Tensor]:
    """The states that enter each block, and the last, where the heads of each layer write `heads`."""
    found = [embedded]
    for layer, written in enumerate(heads):
        found.append(found[-1] + added(model, layer, written))
    return found


def terms(model: Model, contexts: Sequence[Tensor]) -> Iterator[tuple[Term, Tensor]]:
    """Every term and the last states that it gives one sequence, [seq, d_model]. contexts: the model's own resid_pre of each layer, [1, seq, d_model]."""
    embedded, layers = contexts[0].float(), range(model.n_layers)
    patterns = [pattern(model, layer, context) for layer, context in enumerate(contexts)]
    heads = nothing = [torch.zeros_like(embedded)] * model.n_layers
    for most_heads in range(model.n_layers + 1):
        states = streams(model, embedded, heads)
        yield ("paths", most_heads, None), states[-1][0]
        heads = [head_outputs(model, layer, states[layer], patterns[layer]).sum(-2) for layer in layers]
        if most_heads == 0:
            for one in layers:
                alone = [heads[layer] if layer == one else nothing[layer] for layer in layers]
                others = [nothing[layer] if layer == one else heads[layer] for layer in layers]
                yield ("layer", 1, one), streams(model, embedded, alone)[-1][0]
                yield ("other_layers", 1, one), streams(model, embedded, others)[-1][0]


class TermRecorder:
    """Losses of each term, summed over the predictions of each sequence. found: sequence_id → term → nats."""

    sites = frozenset({CONTEXT})

    def __init__(self, model: Model) -> None:
        self.model = model
        self.found: dict[int, dict[Term, float]] = {}
        self.sequences: tuple[TokenSequence, ...] = ()
        self.contexts: list[Tensor] = []

    def begin(self, batch: Batch) -> None:
        self.sequences, self.contexts = batch.sequences, []

    def take(self, _: int, record: LayerRecord) -> None:
        self.contexts.append(record[CONTEXT].to(self.model.device))
        if len(self.contexts) < self.model.n_layers:
            return
        for i, s in enumerate(self.sequences):
            found = terms(self.model, [x[i : i + 1, : n_tokens(s)] for x in self.contexts])
            self.found[s.sequence_id] = {term: loss(self.model, states, s.token_ids) for term, states in found}


def loss(model: Model, states: Tensor, token_ids: np.ndarray) -> float:
    """Of the tokens behind the first, from the states [seq, d_model], in nats together."""
    log_probs = model.lens(states[:-1]).log_softmax(-1)
    following = torch.from_numpy(token_ids[1:].astype(np.int64)).to(log_probs.device)
    return -float(log_probs.gather(1, following[:, None]).sum(dtype=torch.float64))


def term_rows(model: Model, corpus_id: int, sequences: Sequence[TokenSequence], counts: np.ndarray, batch_tokens: int, progress: Progress) -> pa.Table:
    """Rows of `term_loss`. sequences: of two tokens at least; counts: how often each token is predicted in the whole corpus, [d_vocab]."""
    of_terms, of_model = TermRecorder(model), LossRecorder(model)
    for batch in batches(sequences, batch_tokens):
        for part in read_batch(model, [(of_terms, None), (of_model, None)], batch):
            progress(len(part))
    n = sum(n_tokens(s) - 1 for s in sequences)
    followed = np.concatenate([s.token_ids[1:] for s in sequences])
    sums: dict[Term, float] = {("unigram", None, None): -float(np.log(counts[followed] / counts.sum()).sum())}
    for term in of_terms.found[sequences[0].sequence_id]:
        sums[term] = sum(found[term] for found in of_terms.found.values())
    sums["model", None, None] = sum(float(found.sum(dtype=np.float64)) for found in of_model.found.values())
    words, most_heads, layers = zip(*sums, strict=True)
    return pa.table(
        {
            "corpus_id": np.full(len(sums), corpus_id, np.int32),
            "term": pa.array(words),
            "most_heads": pa.array(most_heads, pa.int16()),
            "layer": pa.array(layers, pa.int16()),
            "loss": np.array(list(sums.values())) / n,
            "n": np.full(len(sums), n, np.int64),
        }
    )
