"""Mean states and geometry against a float64 model read one sequence at a time, and what is known of states that are set by hand."""

from copy import deepcopy
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch

import atlas
from ingest.model.models import Model
from ingest.passes import passes
from ingest.passes.base import CostSample
from ingest.recorders import token_states
from ingest.recorders.token_states import kept_layers, select_states, state_tables
from schema.audits import run_audits
from schema.open.store import open_reader
from tests.exact.tiny import asked, run
from tests.ingest.attention_oracle import eager_model
from tests.ingest.test_run import saved
from tests.ingest.test_term_loss import sequences
from tests.ingest.tiny_models import FAMILIES

PASS = passes()["token_state"]

torch.set_num_threads(1)


def states(model: Model, texts: list[list[int]]) -> list[tuple[int, int, int, np.ndarray]]:
    """(sequence, index, token, states [n_layers + 1, d_model] float64) of every position but those at index 0: what enters the first block, and leaves each."""
    copy = deepcopy(model.hf).double()
    seen: list[torch.Tensor] = []

    def entered(_: object, args: tuple, kwargs: dict) -> None:
        seen.append(args[0] if args else kwargs["hidden_states"])

    found, layers = [], layers_of(copy)
    layers[0].register_forward_pre_hook(entered, with_kwargs=True)
    for layer in layers:
        layer.register_forward_hook(lambda _, __, out: seen.append(out[0] if isinstance(out, tuple) else out))
    for i, ids in enumerate(texts):
        seen.clear()
        with torch.no_grad():
            copy(torch.tensor([ids]), use_cache=False)
        each = torch.stack([x[0] for x in seen]).numpy()
        found += [(i, index, ids[index], each[:, index]) for index in range(1, len(ids))]
    return found


def layers_of(hf: torch.nn.Module) -> list[torch.nn.Module]:
    return next(list(m) for m in hf.modules() if isinstance(m, torch.nn.ModuleList) and len(m) == hf.config.num_hidden_layers)


def cosine(x: np.ndarray, y: np.ndarray) -> float:
    return float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))


@pytest.mark.parametrize("model_type", FAMILIES)
def test_means_and_geometry_are_those_of_a_float64_model(model_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sequences of several lengths, so that some are padded; a token that is no text is in none of it."""
    monkeypatch.setattr(token_states, "LEAST", 3)
    monkeypatch.setattr(token_states, "N_STATES", 12)
    model = eager_model(model_type)
    drawn = np.random.default_rng(3).integers(5, 11, (4, 9)).tolist()
    texts = [drawn[0], drawn[1][:4], drawn[2][:7], drawn[3]]
    is_text = np.ones(model.d_vocab, bool)
    is_text[7] = False
    given = sequences(texts)
    chosen = select_states(given, is_text, seed=1)
    tables = state_tables(model, 5, given, chosen, 2, lambda _: None)
    seen = states(model, texts)
    frequent = [t for t in range(5, 11) if t != 7 and sum(token == t for _, _, token, _ in seen) >= 3]
    assert chosen.token_ids.tolist() == frequent and len(frequent) > 1
    held = [x for x in seen if 100 * x[0] + x[1] in set(chosen.position_ids.tolist())]
    assert len(held) == 12 and all(token != 7 for _, _, token, _ in held)
    means = {(r["layer"], r["token_id"]): r for r in tables["token_state"].to_pylist()}
    assert set(means) == {(layer, t) for layer in kept_layers(model.n_layers) for t in frequent}
    for (layer, token), row in means.items():
        of = [x[layer + 1] for _, _, t, x in seen if t == token]
        assert (row["corpus_id"], row["n_positions"]) == (5, len(of))
        np.testing.assert_allclose(row["vector"], np.mean(of, axis=0), rtol=1e-4, atol=1e-5 * np.abs(of).max())
    rows = tables["layer_geometry"].to_pylist()
    assert [(r["layer"], r["site"]) for r in rows] == [(0, "resid_pre"), *((i, "resid_post") for i in range(model.n_layers))]
    for place, row in enumerate(rows):
        check_geometry(row, [(t, x[place]) for _, _, t, x in held], {t: [x[place] for _, _, u, x in seen if u == t] for t in frequent})


def check_geometry(row: dict, held: list[tuple[int, np.ndarray]], of_tokens: dict[int, list[np.ndarray]]) -> None:
    pairs = [cosine(x, y) for (s, x), (t, y) in combinations(held, 2) if s != t]
    matrix = np.stack([x for _, x in held])
    variances = np.linalg.eigvalsh(np.cov(matrix.T))
    alike = [np.mean([cosine(x, y) for x, y in combinations(of, 2)]) for of in of_tokens.values()]
    expected = {
        "n_states": len(held), "n_pairs": len(pairs), "mean_cosine": np.mean(pairs), "mean_norm": np.mean([np.linalg.norm(x) for x in matrix]),
        "top_dimension_share": max((matrix**2).sum(0)) / (matrix**2).sum(), "first_component_share": variances.max() / variances.sum(),
        "n_tokens": len(of_tokens), "self_similarity": np.mean(alike),
    }  # fmt: skip
    assert {name: row[name] for name in expected} == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_no_token_is_frequent_and_no_two_states_differ() -> None:
    model = eager_model("llama")
    given = sequences([[5, 6, 6, 6]])
    tables = state_tables(model, 0, given, select_states(given, np.ones(model.d_vocab, bool), 0), 1, lambda _: None)
    assert not len(tables["token_state"])
    row = tables["layer_geometry"].to_pylist()[0]
    assert (row["n_states"], row["n_pairs"], row["mean_cosine"], row["n_tokens"], row["self_similarity"]) == (3, 0, None, 0, None)


def test_an_ingest_keeps_every_rule_and_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = saved(tmp_path / "gpt2", seed=0)
    (tmp_path / "a.txt").write_text("the cat and the dog and " * 40)
    (tmp_path / "b.txt").write_text("x")
    given = {"context": 8, "batch_size": 4, "shard_positions": 100, "token_states": True, "seed": 0, "triggers": 2}
    target = run(asked(tmp_path / "a.duckdb", str(model), str(tmp_path / "a.txt"), **given))
    run(asked(target, str(model), str(tmp_path / "b.txt"), **given))
    assert "no token_state: every sequence of this corpus is one token" in capsys.readouterr().err
    with open_reader(target) as con:
        counted = con.execute("SELECT token_id, any_value(n_positions) FROM token_state GROUP BY token_id ORDER BY token_id").fetchall()
        wanted = con.execute(
            "SELECT p.token_id, count(*) FROM position AS p JOIN token AS k USING (token_id) WHERE p.index > 0 AND NOT k.is_special AND p.position_id < 2^40 "
            "GROUP BY p.token_id HAVING count(*) >= 20 ORDER BY 1"
        ).fetchall()
        runs = con.execute("SELECT corpus_id, status FROM run WHERE kind = 'token_state'").fetchall()
        broken = [found.audit.name for found in run_audits(con) if found.n_rows]
    assert counted == wanted and counted
    assert runs == [(0, "finished")] and not broken
    with atlas.open(target) as a:
        assert a.geometry()["layer"].to_list() == [0, 0, 1]
        assert a.geometry()["self_similarity"].is_between(-1, 1 + 1e-5).all()


def test_a_dry_run_says_rows_seconds_and_memory() -> None:
    model = eager_model("gpt2")
    probe = CostSample(model, asked("x.duckdb", "m", "c", token_states=True, batch_size=2, context=16), None, sequences([[5, 6, 7]]))
    assert PASS.rows(probe) == {"token_state": 0, "layer_geometry": 0} and PASS.seconds(probe) == 0
    assert (PASS.n_bytes(probe) or 0) > 2000 * 3 * model.d_model * 4
