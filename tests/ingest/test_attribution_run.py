"""An ingest that takes predictions apart: beside sweep and trace, for a trace that is there already, and refused where attention is not understood."""

from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from ingest.cli import ingest as command
from ingest.model.checks import check_attention, check_identities
from ingest.model.facts import constant_fact, every_layer
from ingest.model.models import Model
from ingest.refusals import check_model
from ingest.run import ingest
from schema.audits import run_audits
from schema.errors import AtlasError
from schema.open.store import open_reader
from schema.progress import progress_bar
from tests.exact.tiny import Tiny, make
from tests.ingest.tiny_models import tiny_model, with_facts

TABLES = ("attribution", "contribution", "neuron_contribution", "attention", "head_activity")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return make(tmp_path_factory.mktemp("llama"), "llama")


def run(tiny: Tiny, target: Path, **changes: object) -> Path:
    with progress_bar(is_quiet=True) as bar:
        ingest(tiny.request(target, **{"shard_positions": 120, "trace": 40, "paper": False, "attribution": True, **changes}), bar)
    return target


def rows(target: Path) -> dict[str, list[tuple]]:
    with closing(open_reader(target)) as con:
        return {name: con.execute(f"FROM {name} ORDER BY ALL").fetchall() for name in TABLES}


@pytest.mark.thorough
def test_beside_a_sweep_and_for_an_older_trace_it_takes_the_same_positions_apart(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens: list[int] = []
    backbone = Model.backbone
    monkeypatch.setattr(Model, "backbone", lambda self, ids: (tokens.append(ids.numel()), backbone(self, ids))[1])
    beside = run(tiny, tmp_path / "beside.duckdb")
    once = sum(tokens)
    tokens.clear()
    later = run(tiny, tmp_path / "later.duckdb", attribution=False)
    # the attribution reads nothing of its own beside a sweep; its identities were checked on two sequences of 12
    assert sum(tokens) == once - 24
    assert not any(rows(later).values())
    tokens.clear()
    run(tiny, later)
    assert 0 < sum(tokens) < once
    for path in (beside, later):
        with closing(open_reader(path)) as con:
            assert [f.audit.name for f in run_audits(con) if f.n_rows] == []
            assert con.execute("SELECT count(*) FROM trace WHERE position_id IN (SELECT position_id FROM attribution)").fetchall() == [(40,)]
            assert con.execute("SELECT max(abs(residual)) < 1e-4, min(slope) = 1 FROM attribution").fetchall() == [(True, True)]
    one, other = rows(beside), rows(later)
    for name in ("contribution", "head_activity"):
        assert len(one[name]) == len(other[name])
        for a, b in zip(one[name], other[name], strict=True):
            assert [x for x in a if not isinstance(x, float)] == [x for x in b if not isinstance(x, float)]
            assert [x for x in a if isinstance(x, float)] == pytest.approx([x for x in b if isinstance(x, float)], rel=1e-3, abs=1e-4)


@pytest.mark.thorough
def test_another_trace_is_given_only_the_positions_that_it_lacks(tiny: Tiny, tmp_path: Path) -> None:
    target = run(tiny, tmp_path / "a.duckdb", trace=20, triggers=0)
    run(tiny, target, trace=40, triggers=0)
    with closing(open_reader(target)) as con:
        found = con.execute("SELECT run_id, count(*) FROM attribution WHERE target = 'final' GROUP BY ALL ORDER BY ALL").fetchall()
        assert [f.audit.name for f in run_audits(con) if f.n_rows] == []
    assert [n for _, n in found] == [20, 20]


def test_without_a_trace_it_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    with pytest.raises(AtlasError, match="--attribution needs --trace: it attributes the predictions at the positions that --trace samples"):
        run(tiny, tmp_path / "a.duckdb", trace=0)
    assert not (tmp_path / "a.duckdb").exists()
    refused = CliRunner().invoke(command, [str(tmp_path / "a.duckdb"), "--model", "x", "--attribution"])
    assert "--attribution needs --corpus" in refused.output


@pytest.mark.parametrize(
    ("model_type", "facts", "message"),
    [
        ("granite", {"attention__o": "self_attn.q_proj"}, r"heads \+ attention bias = attn_out fails at layer 0: relative error \d"),
        ("gemma2", {"attention__after_norm": None}, r"heads \+ attention bias = attn_out fails at layer 0"),
        ("gpt2", {"attention__layout": "heads"}, r"pattern @ values = what heads gathered fails at layer 0: relative error \d"),
        ("mistral", {"attention__window": every_layer(constant_fact(None))}, r"pattern @ values = what heads gathered"),
    ],
)
def test_a_wrong_fact_of_attention_fails_its_identity_and_the_ffns_are_read_all_the_same(model_type: str, facts: dict, message: str) -> None:
    wrong = with_facts(tiny_model(model_type), **facts)
    check_identities(wrong)
    with pytest.raises(AtlasError, match=message):
        check_attention(wrong)


@pytest.mark.parametrize(
    "asked", [{"circuit": True}, {"attribution": True, "trace": 5}, {"head_statistics": True}, {"head_probe": True}], ids=lambda asked: next(iter(asked))
)
def test_who_relies_on_the_facts_of_attention_is_refused_a_model_of_which_they_are_wrong(tiny: Tiny, tmp_path: Path, asked: dict) -> None:
    wrong = with_facts(tiny_model("gpt2"), attention__layout="heads")
    check_model(tiny.request(tmp_path / "a.duckdb", trace=5), wrong)
    with pytest.raises(AtlasError, match=r"pattern @ values = what heads gathered fails"):
        check_model(tiny.request(tmp_path / "a.duckdb", **{"trace": 0, **asked}), wrong)
