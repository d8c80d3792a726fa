"""Rows of a suite's sentences, from the metadata of their documents, and rows of the model's response to the sentences of one paradigm."""

from collections.abc import Iterable, Iterator
from itertools import groupby

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ingest.model.models import Model
from ingest.recorders.contrasts import Contrast, LastPredictions, SignedNorms, contrast_rows, divergence
from ingest.recorders.plans import Basis, CostSample, Plan, Work
from ingest.recorders.reading import cut_after_sample, n_tokens, read_batch
from ingest.recorders.rows import text_tables
from ingest.request import Request
from ingest.text.sequences import CutDocument, bos_token
from ingest.text.suites.formulas import n_terms, parse_formula
from ingest.text.suites.item import CRITICAL
from ingest.workers.pool import Job, job
from ingest.workers.worker import Progress, Tables, Worker
from schema.errors import AtlasError

ITEM_SCHEMA = pa.schema(
    [
        ("document_id", pa.int64()), ("kind", pa.string()), ("suite", pa.string()), ("paradigm", pa.string()), ("item", pa.string()), ("role", pa.string()),
        ("expectation", pa.string()), ("delta", pa.float32()),
    ]
)  # fmt: skip
REGION_SCHEMA = pa.schema([("document_id", pa.int64()), ("region", pa.string()), ("first_position_id", pa.int64()), ("last_position_id", pa.int64())])
TERM_SCHEMA = pa.schema(
    [
        ("corpus_id", pa.int32()), ("suite", pa.string()), ("paradigm", pa.string()), ("formula", pa.int16()), ("clause", pa.int16()),
        ("comparison", pa.int16()), ("operator", pa.string()), ("role", pa.string()), ("region", pa.string()), ("weight", pa.float32()),
    ]
)  # fmt: skip
DIVERGENCE_SCHEMA = pa.schema([("document_id", pa.int64()), ("original_document_id", pa.int64()), ("divergence", pa.float32())])

SAID = ("kind", "suite", "paradigm", "item", "role", "expectation", "delta")


def paradigm_of(document: CutDocument) -> tuple[object, object]:
    return document.document.metadata["suite"], document.document.metadata["paradigm"]


def item_rows(documents: list[CutDocument]) -> Tables:
    """Build the rows of `test_item` and `test_region`."""
    items = [{"document_id": d.document_id, **{name: d.document.metadata[name] for name in SAID}} for d in documents]
    regions = [
        {"document_id": d.document_id, "region": name, "first_position_id": tokens[0], "last_position_id": tokens[-1]}
        for d in documents
        for name, tokens in region_tokens(d).items()
    ]
    return {"test_item": pa.Table.from_pylist(items, ITEM_SCHEMA), "test_region": pa.Table.from_pylist(regions, REGION_SCHEMA)}


def term_rows(documents: list[CutDocument], corpus_id: int) -> Tables:
    """Build the rows of `test_term`: the formulas of a paradigm, which all of its items share."""
    suite, paradigm = paradigm_of(documents[0])
    rows = [
        {
            "corpus_id": corpus_id, "suite": suite, "paradigm": paradigm, "formula": f, "clause": c, "comparison": i, "operator": comparison.operator,
            "role": role, "region": region, "weight": weight,
        }
        for f, text in enumerate(str(documents[0].document.metadata["expectation"]).split("\n"), start=1)
        for c, clause in enumerate(parse_formula(str(paradigm), text), start=1)
        for i, comparison in enumerate(clause, start=1)
        for (role, region), weight in comparison.weights.items()
    ]  # fmt: skip
    return {"test_term": pa.Table.from_pylist(rows, TERM_SCHEMA)}


def region_tokens(d: CutDocument) -> dict[str, list[int]]:
    """Map each region that has tokens to their position_ids, ascending.

    A token belongs to the region with the token's first character that is not white space.
    """
    (s,), text = d.sequences, d.document.text
    pieces = [text[start:end] for start, end in zip(s.char_starts, s.char_ends, strict=True)]
    # BOS covers nothing
    first = [int(start) + len(piece) - len(piece.lstrip()) if piece else -1 for start, piece in zip(s.char_starts, pieces, strict=True)]
    found = {}
    for name, (start, end) in spans_of(d).items():
        if tokens := [s.first_position_id + i for i, place in enumerate(first) if start <= place < end]:
            found[name] = tokens
    return found


def spans_of(d: CutDocument) -> dict[str, list[int]]:
    regions = d.document.metadata["regions"]
    return regions if isinstance(regions, dict) else {}


def ends(documents: list[CutDocument], region: str | None = None) -> list[int]:
    """Find the positions where the sentences of an item are compared: the last of `region` if all have it, else the last of each sentence."""
    found = [region_tokens(d).get(region or "") for d in documents]
    if all(found):
        return [tokens[-1] for tokens in found if tokens]
    return [s.first_position_id + len(s.token_ids) - 1 for d in documents for s in d.sequences]


def value_norms(model: Model) -> Tensor:
    """Compute ‖v_i‖ of every value, [n_layers, d_ffn] float32."""
    return torch.stack([model.values(layer).float().norm(dim=1).to(model.device) for layer in range(model.n_layers)])


def contrast_pairs(model: Model, value_norms: Tensor, documents: list[CutDocument], corpus_id: int, batch_tokens: int, progress: Progress) -> Tables:
    """Compute the rows of `neuron_contrast` over the pairs of one paradigm."""
    contrast = Contrast(model.n_layers, model.d_ffn)
    for items in batched_items(documents, batch_tokens):
        places = [ends(pair, CRITICAL) for pair in items]
        heard = SignedNorms(model, value_norms)
        read_items(model, heard, items, places, progress)
        for pair, at in zip(items, places, strict=True):
            by_role = dict(zip((d.document.metadata["role"] for d in pair), at, strict=True))
            contrast.add(heard.found[by_role["good"]] - heard.found[by_role["bad"]])
    return {"neuron_contrast": contrast_rows(contrast, corpus_id, *map(str, paradigm_of(documents[0])))}


def measure_divergence(model: Model, documents: list[CutDocument], batch_tokens: int, progress: Progress) -> Tables:
    """Compute the rows of `test_divergence` for one paradigm.

    A row has the divergence of a perturbed text from its original, which is the first sentence of the same item.
    """
    rows = []
    for items in batched_items(documents, batch_tokens):
        places = [ends(item) for item in items]
        heard = LastPredictions(model)
        read_items(model, heard, items, places, progress)
        for (original, *perturbed), (first, *others) in zip(items, places, strict=True):
            for d, at in zip(perturbed, others, strict=True):
                of = {"document_id": d.document_id, "original_document_id": original.document_id}
                rows.append({**of, "divergence": divergence(heard.found[first], heard.found[at])})
    return {"test_divergence": pa.Table.from_pylist(rows, DIVERGENCE_SCHEMA)}


def read_items(model: Model, heard: SignedNorms | LastPredictions, items: list[list[CutDocument]], places: list[list[int]], progress: Progress) -> None:
    """Run one forward pass over the sentences of some items, each up to the position where it is compared."""
    sample = np.unique(np.concatenate(places))
    sequences = tuple(sorted((cut_after_sample(s, sample) for item in items for d in item for s in d.sequences), key=lambda s: -len(s.token_ids)))
    list(read_batch(model, [(heard, sample)], sequences))
    progress(len(sequences))


def batched_items(documents: list[CutDocument], batch_tokens: int) -> Iterator[list[list[CutDocument]]]:
    """Yield groups of items. A group has at most batch_tokens tokens, padding included, or a single item."""
    some: list[list[CutDocument]] = []
    n = longest = 0
    for item in items_of(documents):
        of = max(len(s.token_ids) for d in item for s in d.sequences)
        if some and (n + len(item)) * max(longest, of) > batch_tokens:
            yield some
            some, n, longest = [], 0, 0
        some.append(item)
        n, longest = n + len(item), max(longest, of)
    yield some


def items_of(documents: list[CutDocument]) -> Iterator[list[CutDocument]]:
    """Group the sentences by item; sentences of one item are consecutive."""
    return (list(same) for _, same in groupby(documents, key=lambda d: d.document.metadata["item"]))


class Test(Work):
    """Plans and costs of the pass `test`."""

    def check_model(self, request: Request, model: Model) -> None:
        if bos_token(model.tokenizer, request.bos) is None:
            raise AtlasError(f"--suite: nothing would predict the first token of a sentence, since {model.name} reads no BOS by itself; give --bos start")

    def plans(self, basis: Basis) -> Iterable[Plan]:
        if basis.text is None:
            return
        text, request = basis.text, basis.request
        amounts = [sum(1 for _ in same) for _, same in groupby(text.documents(), key=paradigm_of)]

        def jobs(run_id: int, pending: list[int]) -> Iterable[Job]:
            for i, (_, same) in enumerate(groupby(text.documents(), key=paradigm_of)):
                if i in pending:
                    yield job(run_id, i, compute, documents=list(same), run_id=run_id, corpus_id=text.corpus_id, batch_tokens=request.batch_tokens)

        yield Plan({**request.weights_settings(), "batch_size": request.batch_size}, amounts, "sentences", jobs, text.corpus_id)

    def rows(self, sample: CostSample) -> dict[str, int]:
        """Count the rows; the number for `test_region` is an upper bound."""
        if sample.seen is None:
            return {}
        documents = list(sample.request.open_corpus(sample.request.target.parent).documents())
        paradigms = {(d.metadata["suite"], d.metadata["paradigm"]) for d in documents if d.metadata["kind"] == "pair"}
        n_regions = sum(len(d.metadata["regions"]) for d in documents if isinstance(d.metadata["regions"], dict))
        n_perturbed = sum(d.metadata["role"] == "perturbed" for d in documents)
        formulas = {(d.metadata["suite"], d.metadata["paradigm"], d.metadata["expectation"]) for d in documents if d.metadata["kind"] == "region"}
        return {
            "test_item": len(documents), "test_region": n_regions, "test_term": sum(n_terms(str(text)) for *_, text in formulas),
            "test_divergence": n_perturbed, "neuron_contrast": len(paradigms) * sample.model.n_layers * sample.model.d_ffn,
        }  # fmt: skip

    def seconds(self, sample: CostSample) -> float:
        """Estimate the time of reading each sentence once more."""
        if sample.seen is None:
            return 0.0
        ends = np.array([s.first_position_id + n_tokens(s) - 1 for s in sample.batch])
        return sample.token_seconds(SignedNorms(sample.model, value_norms(sample.model)), positions=ends) * sample.seen.n_positions


def compute(
    worker: Worker, progress: Progress, *, documents: list[CutDocument], run_id: int, corpus_id: int, batch_tokens: int
) -> Tables:  # fmt: skip
    tables = {**text_tables(documents, corpus_id), **item_rows(documents)}
    kind = documents[0].document.metadata["kind"]
    if kind == "pair":
        norms = worker.shared_state(run_id, lambda: value_norms(worker.model))
        return {**tables, **contrast_pairs(worker.model, norms, documents, corpus_id, batch_tokens, progress)}
    if kind == "inv":
        return {**tables, **measure_divergence(worker.model, documents, batch_tokens, progress)}
    progress(len(documents))
    return {**tables, **term_rows(documents, corpus_id)} if kind == "region" else tables
