"""Skip-trigrams and the tables that they come from, against the cube of all triples of a small vocabulary, in every family."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from ingest.model.models import Model
from ingest.model.token_states import n_tokens
from ingest.passes import passes
from ingest.passes.base import Basis, CostSample
from ingest.recorders import skip_trigrams
from ingest.recorders.distances import Distances
from ingest.recorders.skip_trigrams import head_tables
from ingest.recorders.token_circuits import token_circuits
from schema.errors import AtlasError
from schema.open.store import open_reader
from tests.exact.heads_reference import Heads, centred
from tests.exact.tiny import asked, run
from tests.ingest import token_oracle as oracle
from tests.ingest.attention_oracle import eager_model
from tests.ingest.test_circuit import VARIANTS
from tests.ingest.test_run import saved
from tests.ingest.tiny_models import marked

PASS = passes()["skip_trigram"]

torch.set_num_threads(1)

V = 60
SIGNS = {"max": 1, "min": -1}


SEEN = Distances(12)
COUNTS = np.random.default_rng(0).integers(0, 30, V) ** 2
TEXTS = {"all tokens": (np.zeros(V, np.int64), 0), "a text": (COUNTS, 100), "few tokens": (COUNTS, int(np.sort(COUNTS)[-6]))}
"""Counts of tokens, and how often the text has those that take part."""


@pytest.fixture(params=marked(VARIANTS, is_one=True), ids=[f"{m}{'-' + '-'.join(c) if c else ''}" for m, c in VARIANTS], scope="module")
def both(request: pytest.FixtureRequest) -> tuple[Model, Heads]:
    model_type, changes = request.param
    model = eager_model(model_type, vocab_size=V, **changes)
    return model, Heads(model.hf)


def tables(model: Model, layer: int, head: int, text: str = "all tokens") -> dict[str, list[dict]]:
    found = head_tables(token_circuits(model, layer, *TEXTS[text], SEEN), layer, head, V, lambda _: None)
    return {name: rows.to_pylist() for name, rows in found.items()}


def weights(text: str) -> np.ndarray:
    counts, _ = TEXTS[text]
    return counts if counts.any() else np.ones(V)


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("text", TEXTS)
def test_rows_are_the_first_of_whole_tables(both, monkeypatch: pytest.MonkeyPatch, layer: int, text: str) -> None:
    monkeypatch.setattr(skip_trigrams, "CHUNK", 16)
    (model, heads), head, (counts, least) = both, both[0].n_heads - 1, TEXTS[text]
    found, allowed = tables(model, layer, head, text), counts >= least
    n_kept, g = min(10, allowed.sum()), oracle.raises(heads, layer, head)
    f = oracle.looks(heads, layer, head, weights(text), heads.pairs(layer, SEEN.context))
    whole = {"qk": (f, f.mean(1), f.std(1)), "ov": (centred(g.T).T, g.mean(1), g.std(1))}
    for circuit, (scores, mean, std) in whole.items():
        loose = 1e-4 * np.abs(scores).max()
        rows = [r for r in found["circuit_token"] if r["circuit"] == circuit]
        expected = [(layer, head, s, rank) for s in range(V) for rank in range(1, n_kept + 1)]
        assert [(r["layer"], r["head"], r["source_token_id"], r["rank"]) for r in rows] == expected
        kept = np.array([r["score"] for r in rows]).reshape(V, n_kept)
        np.testing.assert_allclose(kept, -np.sort(-scores[:, allowed], axis=1)[:, :n_kept], atol=loose)
        tokens = np.array([r["token_id"] for r in rows]).reshape(V, n_kept)
        assert allowed[tokens].all()
        np.testing.assert_allclose(kept, np.take_along_axis(scores, tokens, 1), atol=loose)
        of_source = [r for r in found["circuit_source"] if r["circuit"] == circuit]
        assert [(r["source_token_id"], r["n_source"]) for r in of_source] == list(enumerate(counts.tolist()))
        np.testing.assert_allclose([r["mean"] for r in of_source], mean, atol=max(loose, 1e-4 * np.abs(mean).max()))
        np.testing.assert_allclose([r["std"] for r in of_source], std, atol=loose)


@pytest.mark.parametrize("n_largest", [7, 100])
@pytest.mark.parametrize("text", TEXTS)
def test_the_largest_are_those_of_all_triples(both, monkeypatch: pytest.MonkeyPatch, n_largest: int, text: str) -> None:
    monkeypatch.setattr(skip_trigrams, "N_LARGEST", n_largest)
    monkeypatch.setattr(skip_trigrams, "N_KEPT", 5)
    monkeypatch.setattr(skip_trigrams, "CHUNK", 8)
    (model, heads), (counts, least) = both, TEXTS[text]
    found, allowed = tables(model, 0, 0, text)["skip_trigram"], counts >= least
    f, g = oracle.looks(heads, 0, 0, weights(text), heads.pairs(0, SEEN.context)), oracle.raises(heads, 0, 0)
    for tails in [(a, b) for a in SIGNS for b in SIGNS]:
        rows = [r for r in found if (r["destination_tail"], r["out_tail"]) == tails]
        triples, products = oracle.largest(f, g, (SIGNS[tails[0]], SIGNS[tails[1]]), n_largest, allowed)
        # six tokens make fewer than 100 triples of these signs
        assert [r["rank"] for r in rows] == list(range(1, len(products) + 1)) and (len(products) == n_largest or text == "few tokens")
        mine = np.array([[r[f"{name}_token_id"] for name in ("source", "destination", "out")] for r in rows], int).reshape(-1, 3)
        got = np.array([r["destination_score"] * r["out_score"] for r in rows])
        assert allowed[mine].all()
        loose = 1e-4 * np.abs(products).max(initial=0)
        np.testing.assert_allclose(got, products, atol=loose)
        np.testing.assert_allclose(f[mine[:, 0], mine[:, 1]] * centred(g.T).T[mine[:, 0], mine[:, 2]], got, atol=loose)
        assert list(np.abs(got)) == sorted(np.abs(got), reverse=True)
        # the same triples, but where rounding decides between two
        border = np.abs(products[-1:]).sum() + 2 * loose
        assert {tuple(t) for t, p in zip(triples, products, strict=True) if abs(p) > border} <= {tuple(t) for t in mine}
        assert len({tuple(t) for t in mine}) == len(products)


def test_a_head_that_writes_nothing_has_no_triples() -> None:
    model = eager_model("llama", vocab_size=V)
    with torch.no_grad():
        model.hf.model.layers[0].self_attn.o_proj.weight.zero_()
    found = tables(model, 0, 0)
    assert found["skip_trigram"] == []
    assert {r["std"] for r in found["circuit_source"] if r["circuit"] == "ov"} == {0.0}


def test_ties_go_to_the_lowest_source_and_token() -> None:
    model = eager_model("llama", vocab_size=V, tie_word_embeddings=False)
    with torch.no_grad():
        model.hf.model.embed_tokens.weight[:] = model.hf.model.embed_tokens.weight[torch.arange(V) % 20]
        model.hf.lm_head.weight[:] = model.hf.lm_head.weight[torch.arange(V) % 20]
    rows = [r for r in tables(model, 0, 0)["skip_trigram"] if (r["destination_tail"], r["out_tail"]) == ("max", "max")]
    first = {name: rows[0][f"{name}_token_id"] for name in ("source", "destination", "out")}
    assert max(first.values()) < 20
    best = [tuple(r[f"{name}_token_id"] for name in ("source", "destination", "out")) for r in rows[:27]]
    assert best == [tuple(t + 20 * i for t, i in zip(first.values(), (a, b, c), strict=True)) for a in range(3) for b in range(3) for c in range(3)]


def test_a_layer_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    model = eager_model("llama")
    with pytest.raises(AtlasError, match=r"--skip-trigram 2: .*layers 0 to 1"):
        PASS.check_model(asked("x.duckdb", "m", None, skip_trigram=(0, 2)), model)


GIVEN = {"context": 4, "bos": "always", "triggers": 2, "batch_size": 2, "shard_positions": 100, "seed": 0, "skip_trigram": (0,)}


@pytest.mark.thorough
def test_tokens_count_as_the_text_has_them_and_bos_is_in_none(tmp_path: Path) -> None:
    model, target = saved(tmp_path / "gpt2", seed=0), tmp_path / "a.duckdb"
    (tmp_path / "a.txt").write_text("the and the then, and the end")
    (tmp_path / "b.txt").write_text("the end")
    run(asked(target, str(model), str(tmp_path / "a.txt"), **GIVEN | {"skip_trigram": ()}))
    run(asked(target, str(model), str(tmp_path / "b.txt"), **GIVEN, skip_trigram_seen=3))
    with open_reader(target) as con:
        counts = Counter(t for (t,) in con.execute("SELECT p.token_id FROM position AS p WHERE p.index > 0").fetchall())
        sources = con.execute("SELECT DISTINCT c.source_token_id, c.n_source FROM circuit_source AS c ORDER BY 1").fetchall()
        tokens = con.execute("SELECT DISTINCT unnest([source_token_id, destination_token_id, out_token_id]) FROM skip_trigram").fetchall()
        promoted = con.execute("SELECT DISTINCT token_id FROM circuit_token").fetchall()
        settings = con.execute("SELECT settings FROM run WHERE kind = 'skip_trigram'").fetchall()
    assert sources == [(token, counts[token]) for token in range(len(sources))]
    common = {token for token, n in counts.items() if n >= 3}
    assert {t for (t,) in tokens} == {t for (t,) in promoted} == common and 1 < len(common) < len(counts)
    assert [(of["layer"], of["seen"]) for of in (json.loads(s) for (s,) in settings)] == [(0, 3)]


@pytest.mark.thorough
def test_without_common_tokens_nothing_is_done_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, target = saved(tmp_path / "gpt2", seed=0), tmp_path / "a.duckdb"
    run(asked(target, str(model), None, **GIVEN))
    assert "no skip_trigram: no token occurs 10 times in the atlas's text" in capsys.readouterr().err
    run(asked(target, str(model), None, **GIVEN, skip_trigram_seen=0))
    assert capsys.readouterr().err == ""
    with open_reader(target) as con:
        assert con.execute("SELECT DISTINCT n_source FROM circuit_source").fetchall() == [(0,)]


def test_what_a_layer_has_is_kept_with_its_text_and_its_filter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, target = saved(tmp_path / "gpt2", seed=0), tmp_path / "a.duckdb"
    (tmp_path / "a.txt").write_text("the and the then, and the end")
    run(asked(target, str(model), str(tmp_path / "a.txt"), **GIVEN, skip_trigram_seen=2))
    with open_reader(target) as con:
        before = con.execute("SELECT * FROM circuit_source ORDER BY ALL").fetchall()
    (tmp_path / "b.txt").write_text("the end")
    assert "based on the text and the distances" not in capsys.readouterr().err
    run(asked(target, str(model), str(tmp_path / "b.txt"), **GIVEN, skip_trigram_seen=2))
    assert "the skip-trigrams of layer 0 are based on the text and the distances that the atlas had when their run began" in capsys.readouterr().err
    with open_reader(target) as con:
        assert con.execute("SELECT * FROM circuit_source ORDER BY ALL").fetchall() == before
        # one that goes on goes on with them
        (plan,) = PASS.plans(Basis(con, eager_model("gpt2"), asked(target, str(model), None, **GIVEN, skip_trigram_seen=2), None))
        (job,) = plan.jobs(2, [0])
    assert job.arguments["counts"].tolist() == [row[4] for row in before if row[1:3] == (0, "qk")]
    with pytest.raises(AtlasError, match=r"--skip-trigram-seen 5: run 2 has read layer 0 with 2 instead"):
        run(asked(target, str(model), str(tmp_path / "a.txt"), **GIVEN, skip_trigram_seen=5))


def test_a_dry_run_counts_the_rows_and_times_a_block() -> None:
    model = eager_model("gpt2")
    probe = CostSample(model, asked("x.duckdb", "m", None, skip_trigram=(1, 0, 1), context=12), None, [])
    counts = np.zeros(n_tokens(model), np.int64)
    found = head_tables(token_circuits(model, 1, counts, 0, SEEN), 1, 0, len(counts), lambda _: None)
    assert PASS.rows(probe) == {name: 2 * model.n_heads * len(rows) for name, rows in found.items()}
    assert PASS.seconds(probe) > 0
