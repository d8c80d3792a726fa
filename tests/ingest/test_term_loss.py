"""Losses of paths through few heads against a float64 model that is run again and again, and what is known of a model set by hand."""

from collections import Counter
from collections.abc import Iterator
from math import exp, log, sqrt
from pathlib import Path

import numpy as np
import pytest
import torch

from ingest.model.models import Model
from ingest.passes import passes
from ingest.passes.base import CostSample, Text
from ingest.recorders import term_losses as term_loss
from ingest.recorders.term_losses import draw_sample, term_rows
from ingest.text.corpora.document import Document
from ingest.text.sequences import CutDocument, Sequence
from schema.errors import AtlasError
from schema.open.store import open_reader
from tests.exact.tiny import asked, run
from tests.ingest.attention_oracle import eager_model
from tests.ingest.induction_model import induction_model
from tests.ingest.term_oracle import mean_losses, silenced
from tests.ingest.tiny_models import FAMILIES, tiny_tokenizer, token_batch

PASS = passes()["term_loss"]

torch.set_num_threads(1)

DEEP = {"llama": {"num_hidden_layers": 3}, "gpt2": {"n_layer": 3}}


def sequences(texts: list[list[int]]) -> list[Sequence]:
    nowhere = np.zeros(0, np.int32)
    return [Sequence(i, 0, 100 * i, np.array(ids, np.int32), np.array([*ids[1:], -1], np.int32), nowhere, nowhere) for i, ids in enumerate(texts)]


def told(model: Model, texts: list[list[int]], counts: np.ndarray | None = None) -> dict[tuple, float]:
    """(term, most_heads, layer) → loss, with the unigram where counts are given."""
    given = np.ones(model.d_vocab) if counts is None else counts
    rows = term_rows(model, 3, sequences(texts), given, 2, lambda _: None).to_pylist()
    assert {(row["corpus_id"], row["n"]) for row in rows} == {(3, sum(len(text) - 1 for text in texts))}
    found = {(row["term"], row["most_heads"], row["layer"]): row["loss"] for row in rows}
    assert len(found) == len(rows) == 3 * model.n_layers + 3
    return found if counts is not None else {term: loss for term, loss in found.items() if term[0] != "unigram"}


def check(model: Model, texts: list[list[int]]) -> None:
    found, wanted = told(model, texts), mean_losses(model, texts)
    assert found == {term: pytest.approx(loss, rel=1e-4) for term, loss in wanted.items()}
    assert found["paths", model.n_layers, None] == pytest.approx(found["model", None, None], abs=1e-3)
    assert len({round(loss, 3) for loss in found.values()}) > model.n_layers


@pytest.mark.parametrize("model_type", FAMILIES)
def test_losses_are_those_of_the_model_that_is_run_again_with_its_patterns(model_type: str) -> None:
    """Sequences of several lengths, so that some are padded."""
    ids = token_batch(3, 9, seed=1).tolist()
    check(silenced(eager_model(model_type)), [ids[0], ids[1][:4], ids[2][:7]])


@pytest.mark.parametrize("model_type", DEEP)
def test_paths_through_as_many_heads_as_there_are_layers_are_the_model(model_type: str) -> None:
    model = silenced(eager_model(model_type, **DEEP[model_type]))
    assert model.n_layers == 3
    check(model, token_batch(1, 8, seed=4).tolist())


def test_in_the_model_set_by_hand_one_head_predicts_where_two_made_its_pattern() -> None:
    """The direct path says nothing, nor do heads of layer 0; with the pattern held the induction head needs no other.

    Of 14 tokens it knows the last 11, and takes the others for the first of all. What it writes is over the length of what it reads: with nothing but
    token and position it is √(3/2) of a unit, in a last state of 4.5 units squared, or 3.5 where no previous token was written either.
    """
    found = told(induction_model(), [[0, *[3, 5] * 7]])

    def wanted(logit: float) -> object:
        return pytest.approx(log(exp(logit) + 7) - logit * 11 / 14, abs=1e-5)

    assert found["paths", 0, None] == found["layer", 1, 0] == found["other_layers", 1, 1] == pytest.approx(log(8), abs=1e-6)
    assert found["layer", 1, 1] == found["other_layers", 1, 0] == wanted(sqrt(80 * 1.5 / 3.5))
    assert found["paths", 1, None] == wanted(sqrt(80 * 1.5 / 4.5))
    assert found["paths", 2, None] == wanted(sqrt(80 / 3))
    assert found["model", None, None] == wanted(sqrt(80 / 3))


def test_the_unigram_is_that_of_the_whole_corpus() -> None:
    model, text = silenced(eager_model("llama")), [1, 2, 2, 5]
    counts = np.bincount([2, 2, 2, 5, 7, 7, 7, 7], minlength=model.d_vocab)
    assert told(model, [text], counts)["unigram", None, None] == pytest.approx(-(2 * log(3 / 8) + log(1 / 8)) / 3)


def test_a_model_whose_ffns_write_is_refused_before_anything_is_computed() -> None:
    request = asked("x.duckdb", "m", "text", term_loss=True)
    with pytest.raises(AtlasError, match=r"tiny-gpt2 has FFNs that write to the stream \(layer 0\).* a model of attention alone, such as attention-2l-sotu"):
        PASS.check_model(request, eager_model("gpt2"))
    half = silenced(eager_model("gpt2"))
    # a bias alone is enough
    half.layer_module(1, "mlp.c_proj").bias[3] = 1
    with pytest.raises(AtlasError, match=r"\(layer 1\)"):
        PASS.check_model(request, half)
    PASS.check_model(request, silenced(eager_model("gpt2")))


def test_the_sample_is_drawn_by_the_seed_and_its_order_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    made = sequences([[0, i % 7, 3] for i in range(40)] + [[0]])

    def text(order: list[Sequence]) -> Text:
        def documents() -> Iterator[CutDocument]:
            yield from (CutDocument(i, Document("d", "text", {}), (s,)) for i, s in enumerate(order))

        return Text(None, 0, None, documents)  # type: ignore[arg-type]

    def ids(order: list[Sequence], seed: int) -> list[int]:
        return [s.sequence_id for s in draw_sample(text(order), seed, 10)[0]]

    monkeypatch.setattr(term_loss, "N_SEQUENCES", 5)
    few = ids(made, 0)
    assert few == ids(made[::-1], 0) != ids(made, 1)
    monkeypatch.setattr(term_loss, "N_SEQUENCES", 50)
    every, counts = draw_sample(text(made), 0, 10)
    # one token alone is predicted by nothing
    assert sorted(s.sequence_id for s in every) == list(range(40)) and [s.sequence_id for s in every][:5] == few
    assert dict(enumerate(counts.tolist())) == {i: Counter([*(i % 7 for i in range(40)), *[3] * 40])[i] for i in range(10)}


def test_an_ingest_tells_it_of_its_corpus_and_says_where_nothing_is_predicted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = silenced(eager_model("gpt2"))
    model.hf.save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    for name, text in (("a", "the and the then, and the end"), ("b", "x")):
        (tmp_path / f"{name}.txt").write_text(text)
        given = {"context": 4, "batch_size": 2, "term_loss": True, "seed": 0, "bos": "never"}
        run(asked(tmp_path / "a.duckdb", str(tmp_path / "model"), str(tmp_path / f"{name}.txt"), **given))
    assert "note: no term_loss: every sequence of this corpus is one token" in capsys.readouterr().err
    with open_reader(tmp_path / "a.duckdb") as con:
        rows = con.execute("SELECT * FROM term_loss").pl()
        assert con.execute("SELECT corpus_id, status FROM run WHERE kind = 'term_loss'").fetchall() == [(0, "finished")]
    assert rows["corpus_id"].unique().to_list() == [0] and rows.height == 9
    tokens = tiny_tokenizer()("the and the then, and the end")["input_ids"]
    wanted = mean_losses(model, [cut for i in range(0, len(tokens), 4) if len(cut := tokens[i : i + 4]) > 1])
    found = {row[:3]: row[3] for row in rows.select("term", "most_heads", "layer", "loss").iter_rows() if row[0] != "unigram"}
    assert found == {term: pytest.approx(loss, rel=1e-4) for term, loss in wanted.items()}


def test_a_dry_run_counts_the_terms_and_times_a_batch() -> None:
    model = silenced(eager_model("gpt2"))
    assert PASS.rows(CostSample(model, asked("x.duckdb", "m", None), None, [])) == {"term_loss": 0}
