"""The direct path against transformers' own model without its blocks, and what is made of it against counts of the text."""

from collections import Counter
from copy import deepcopy
from math import log
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from ingest.passes import passes
from ingest.passes.base import CostSample
from ingest.recorders import direct_path
from ingest.recorders.direct_path import corpus_rows, follower_rows
from ingest.recorders.loaded_rows import Bigrams
from schema.open.store import open_reader
from tests.exact.heads_reference import without_positions
from tests.exact.tiny import asked, run
from tests.ingest.attention_oracle import eager_model
from tests.ingest.test_run import saved
from tests.ingest.tiny_models import FAMILIES

PASS = passes()["direct_path"]

torch.set_num_threads(1)


def without_blocks(hf: nn.Module, n: int) -> np.ndarray:
    """Logits of each token alone in float64, no block and no learned position between embedding and head: [n, d_vocab]."""
    copy = deepcopy(hf).double()
    blocks = next(m for m in copy.modules() if isinstance(m, nn.ModuleList) and len(m) == hf.config.num_hidden_layers)
    del blocks[:]
    copy.config.num_hidden_layers = 0
    with torch.no_grad(), without_positions(copy):
        return copy(torch.arange(n)[:, None], use_cache=False).logits[:, 0].numpy()


@pytest.mark.parametrize("model_type", FAMILIES)
def test_followers_are_those_of_the_model_without_its_blocks(model_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_path, "CHUNK", 32)
    model = eager_model(model_type)
    logits = without_blocks(model.hf, 70)
    rows = follower_rows(model, np.arange(3, 70)).to_pylist()
    assert [(r["token_id"], r["rank"]) for r in rows] == [(token, rank) for token in range(3, 70) for rank in range(1, 11)]
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    loose = 1e-4 * np.abs(logits).max()
    np.testing.assert_allclose(np.reshape([r["logit"] for r in rows], (-1, 10)), -np.sort(-logits, axis=1)[3:, :10], atol=loose)
    np.testing.assert_allclose([r["logit"] for r in rows], [logits[r["token_id"], r["next_token_id"]] for r in rows], atol=loose)
    np.testing.assert_allclose([r["prob"] for r in rows], [probs[r["token_id"], r["next_token_id"]] for r in rows], rtol=1e-3, atol=1e-6)


def test_bigrams_are_compared_as_the_definitions_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_path, "CHUNK", 3)
    model = eager_model("llama")
    drawn = np.random.default_rng(0).integers(0, 12, 200)
    pairs = Counter(zip(drawn[:-1].tolist(), drawn[1:].tolist(), strict=True))
    table = np.array(sorted((*pair, n) for pair, n in pairs.items()))
    unigrams = np.bincount(drawn[1:], minlength=model.d_vocab)
    rows = corpus_rows(model, 4, Bigrams(*table.T), unigrams).to_pylist()
    check(rows, pairs, without_blocks(model.hf, 12))
    assert {r["corpus_id"] for r in rows} == {4}


def check(rows: list[dict], pairs: Counter, logits: np.ndarray) -> None:
    """pairs: (token, follower) → how often."""
    seen = Counter[int]()
    for (_, follower), n in pairs.items():
        seen[follower] += n
    assert [r["token_id"] for r in rows] == sorted({token for token, _ in pairs})
    for r in rows:
        following = {follower: n for (token, follower), n in pairs.items() if token == r["token_id"]}
        q = logits[r["token_id"]] - np.log(np.exp(logits[r["token_id"]]).sum())
        total = sum(following.values())
        first = min(following, key=lambda follower: (-following[follower], follower))
        expected = {
            "n": total, "follower_id": first, "follower_n": following[first], "follower_rank": int((q > q[first]).sum()) + 1, "follower_log_prob": q[first],
            "kl_direct": sum(n / total * (log(n / total) - q[follower]) for follower, n in following.items()),
            "kl_unigram": sum(n / total * log(n / total / (seen[follower] / sum(seen.values()))) for follower, n in following.items()),
        }  # fmt: skip
        assert {name: r[name] for name in expected} == pytest.approx(expected, abs=2e-4)


@pytest.mark.thorough
def test_an_ingest_counts_what_its_text_holds_and_leaves_bos_out(tmp_path: Path) -> None:
    model = saved(tmp_path / "gpt2", seed=0)
    (tmp_path / "a.txt").write_text("the and the then, and the end")
    (tmp_path / "b.txt").write_text("x")
    target = tmp_path / "a.duckdb"
    given = {"context": 4, "bos": "always", "triggers": 2, "batch_size": 2, "shard_positions": 100, "direct_path": True, "seed": 0}
    run(asked(target, str(model), str(tmp_path / "*.txt"), **given))
    run(asked(target, str(model), str(tmp_path / "b.txt"), **given))
    with open_reader(target) as con:
        follows = con.execute("SELECT p.token_id, p.next_token_id FROM position AS p WHERE p.index > 0 AND p.next_token_id IS NOT NULL").fetchall()
        rows = con.execute("SELECT * FROM direct_path ORDER BY token_id").pl().to_dicts()
        n_followers, n_tokens = con.execute("SELECT count(*), count(DISTINCT token_id) FROM direct_path_token").fetchall()[0]
        runs = con.execute("SELECT corpus_id, status FROM run WHERE kind = 'direct_path' ORDER BY corpus_id NULLS FIRST").fetchall()
        d_vocab = con.execute("SELECT d_vocab FROM model").fetchall()[0][0]
    # of a text of one token nothing is told, and it is no run
    assert runs == [(None, "finished"), (0, "finished")]
    assert (n_followers, n_tokens) == (10 * d_vocab, d_vocab)
    counts = Counter(follows)
    assert [(r["token_id"], r["n"]) for r in rows] == sorted(Counter(token for token, _ in follows).items())
    assert all(r["follower_n"] == max(n for (token, _), n in counts.items() if token == r["token_id"]) for r in rows)


@pytest.mark.thorough
def test_a_text_without_bigrams_or_a_sweep_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, text = saved(tmp_path / "gpt2", seed=0), tmp_path / "b.txt"
    text.write_text("x")
    given = {"context": 4, "batch_size": 2, "shard_positions": 100, "direct_path": True, "seed": 0}
    run(asked(tmp_path / "a.duckdb", str(model), str(text), triggers=2, **given))
    assert "it has no token that is followed by another" in capsys.readouterr().err
    run(asked(tmp_path / "c.duckdb", str(model), str(text), trace=1, **given))
    assert "no direct_path of this corpus: it has no finished sweep" in capsys.readouterr().err


def test_a_dry_run_counts_the_vocabulary_and_times_a_block() -> None:
    model = eager_model("gpt2")
    probe = CostSample(model, asked("x.duckdb", "m", None, direct_path=True), None, [])
    assert PASS.rows(probe) == {"direct_path_token": 10 * model.d_vocab, "direct_path": 0}
    assert PASS.seconds(probe) > 0
