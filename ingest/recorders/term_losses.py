"""Loss of an attention-only model when it predicts with paths through few of its heads (Elhage et al. 2021, term importance analysis).

Attention patterns are frozen at those of the model. Run 0 adds no head's output to the stream; run n adds what the heads wrote in run n - 1. In run n,
predictions therefore come from paths through at most n heads, and from all paths if n is the number of layers. Norms are computed anew from the stream of
each run. The bias that each layer's attention adds besides its heads is part of every run.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ingest.model.heads import head_outputs, layer_heads, pattern
from ingest.model.hooks import CONTEXT, LayerRecord
from ingest.model.models import Model
from ingest.model.modules import in_float32
from ingest.recorders.base import Batch
from ingest.recorders.plans import Basis, CostSample, Plan, Text, Work
from ingest.recorders.reading import batches, n_tokens, read_batch
from ingest.recorders.repeated_tokens import LossRecorder
from ingest.request import Request
from ingest.text.sampling import drawn_sequences
from ingest.text.sequences import Sequence as TokenSequence
from ingest.timing import fastest_seconds
from ingest.workers.pool import Job, job
from ingest.workers.worker import Progress, Tables, Worker
from schema.errors import AtlasError

Term = tuple[str, int | None, int | None]
"""Values of the columns term, most_heads and layer of `term_loss`."""


def writes_by_ffn(model: Model) -> int | None:
    """Find the first layer whose FFN writes anything to the stream; None in a model of attention alone."""

    def is_silent(layer: int) -> bool:
        bias = model.ffn_bias(layer)
        return not model.values(layer).any() and (bias is None or not bias.any())

    return next((layer for layer in range(model.n_layers) if not is_silent(layer)), None)


def attention_update(model: Model, layer: int, heads: Tensor) -> Tensor:
    """Compute what a layer's attention adds to the stream, [1, seq, d_model]. heads: what its heads write together, [1, seq, d_model]."""
    bias, after = layer_heads(model, layer).b_o, model.attention(layer).after_norm
    found = heads if bias is None else heads + bias
    normed: Tensor = found if after is None else in_float32(model.layer_module(layer, after), model.device)(found)
    return normed * model.residual_multiplier


def streams(model: Model, embedded: Tensor, heads: Sequence[Tensor]) -> list[Tensor]:
    """Compute the states that enter each block, and the last state. heads: what the heads of each layer write together."""
    found = [embedded]
    for layer, written in enumerate(heads):
        found.append(found[-1] + attention_update(model, layer, written))
    return found


def terms(model: Model, contexts: Sequence[Tensor]) -> Iterator[tuple[Term, Tensor]]:
    """Yield every term with the last states that it gives for one sequence, [seq, d_model].

    contexts: the model's own resid_pre of each layer, [1, seq, d_model].
    """
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
    """Recorder of the loss of each term, summed over the predictions of each sequence. found: sequence_id → term → nats."""

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
    """Sum the loss, in nats, of all tokens after the first, predicted from the states [seq, d_model]."""
    log_probs = model.lens(states[:-1]).log_softmax(-1)
    following = torch.from_numpy(token_ids[1:].astype(np.int64)).to(log_probs.device)
    return -float(log_probs.gather(1, following[:, None]).sum(dtype=torch.float64))


def term_rows(model: Model, corpus_id: int, sequences: Sequence[TokenSequence], counts: np.ndarray, batch_tokens: int, progress: Progress) -> pa.Table:
    """Compute the rows of `term_loss`. sequences: of at least two tokens each; counts: how often each token is predicted in the whole corpus, [d_vocab]."""
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


N_SEQUENCES = 256
"""Most sequences that are read, drawn by the seed. In contexts of 256 they have 65,000 predictions, whose mean loss is accurate to about 0.01 nats."""


class TermLoss(Work):
    """Plans and costs of the pass `term_loss`."""

    def check_model(self, request: Request, model: Model) -> None:
        """Raise AtlasError for a model with an FFN that writes to the stream.

        An FFN is not a sum over paths. With its output frozen, it would add to the direct path what it has read from heads. Computed anew from a stream
        with less in it, it would respond to input that it never gets in the model.
        """
        if (layer := writes_by_ffn(model)) is not None:
            raise AtlasError(
                f"--term-loss: {model.name} has FFNs that write to the stream (layer {layer}), and what they write is not a sum over paths through heads; "
                "give a model of attention alone, such as attention-2l-sotu"
            )

    def note(self, basis: Basis) -> str | None:
        is_there = basis.text is None or basis.text.seen.n_positions > basis.text.seen.n_sequences
        return None if is_there else "note: no term_loss: every sequence of this corpus is one token, so no token is predicted; give longer texts"

    def plans(self, basis: Basis) -> Iterable[Plan]:
        if basis.text is None or self.note(basis):
            return
        text, request = basis.text, basis.request
        settings = {**request.weights_settings(), "seed": request.seed, "sequences": N_SEQUENCES, "batch_size": request.batch_size}

        def jobs(run_id: int, _: list[int]) -> Iterable[Job]:
            sequences, counts = draw_sample(text, request.seed, basis.model.d_vocab)
            yield job(run_id, 0, compute, corpus_id=text.corpus_id, sequences=sequences, counts=counts, batch_tokens=request.batch_tokens)

        yield Plan(settings, [min(N_SEQUENCES, text.seen.n_sequences)], "sequences", jobs, text.corpus_id)

    def rows(self, sample: CostSample) -> dict[str, int]:
        """Count the rows: one for unigrams, one for the model, one for each number of heads from 0 on, and two for each layer."""
        return {"term_loss": 3 * sample.model.n_layers + 3 if sample.seen else 0}

    def seconds(self, sample: CostSample) -> float:
        few = [s for s in sample.batch if len(s.token_ids) > 1]
        if sample.seen is None or not few:
            return 0.0
        counts = np.ones(sample.model.d_vocab)
        each = fastest_seconds(lambda: term_rows(sample.model, 0, few, counts, sample.request.batch_tokens, lambda _: None)) / len(few)
        return each * min(N_SEQUENCES, sample.seen.n_sequences)


def draw_sample(text: Text, seed: int, d_vocab: int) -> tuple[list[TokenSequence], np.ndarray]:
    """Draw a sample of sequences of at least two tokens, and count how often each token is predicted in the whole text, [d_vocab].

    Both are done in one pass over the text.
    """
    counts = np.zeros(d_vocab, np.int64)

    def count_tokens() -> Iterable[TokenSequence]:
        for s in (s for document in text.documents() for s in document.sequences):
            np.add.at(counts, s.token_ids[1:], 1)
            yield s

    return drawn_sequences(count_tokens(), seed, N_SEQUENCES), counts


def compute(worker: Worker, progress: Progress, *, corpus_id: int, sequences: list[TokenSequence], counts: np.ndarray, batch_tokens: int) -> Tables:
    return {"term_loss": term_rows(worker.model, corpus_id, sequences, counts, batch_tokens, progress)}
