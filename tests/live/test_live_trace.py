"""A live prompt's rows against those that an ingest of the same text brings, and against plain transformers in float64; questions over it unchanged."""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import torch
from click.testing import CliRunner

import atlas
from atlas.beside.experiments import EXPERIMENTS
from atlas.cli.main import cli, run
from atlas.live import LiveTrace, saving
from atlas.live.saving import save_answer
from atlas.live.shape import OF_EXPERIMENT
from atlas.live.streams import stream_of
from schema.audits import run_audits
from schema.errors import AtlasError
from schema.live import socket_path
from tests.exact.tiny import D_FFN, D_VOCAB
from tests.live.conftest import PROMPT, World

DOCUMENT = Path(__file__).parents[2] / "docs" / "live.md"

TRACED = ("trace", "logit_lens", "logit_lens_token", "residual_state", "coefficient", "layer_activity")
"""sub_update too, but for the random ones, which are drawn by position_id."""

ZEROED = {"site": "coefficient", "layer": 1, "units": [3, 7], "op": "zero", "positions": "all"}


@pytest.fixture(scope="module")
def opened(process: World) -> Iterator[atlas.api.Atlas]:
    with atlas.open(process.atlas) as a:
        yield a


@pytest.fixture(scope="module")
def traced(opened: atlas.api.Atlas) -> LiveTrace:
    return opened.live().trace(PROMPT, [[ZEROED], []])


def test_a_chat_is_the_tokenizers_own_with_its_special_tokens(opened: atlas.api.Atlas, process: World) -> None:
    messages = [{"role": "user", "content": "The people"}, {"role": "assistant", "content": "of"}]
    for text, asked in (("The people", messages[:1]), (json.dumps(messages), messages)):
        found = opened.live().trace(text, chat=True)
        own = process.tiny.tokenizer.apply_chat_template(asked, add_generation_prompt=len(asked) == 1, tokenize=True, return_dict=False)
        assert found.sql("SELECT p.token_id FROM position AS p WHERE p.position_id < 0 ORDER BY p.position_id DESC")["token_id"].to_list()[::-1] == own
        assert found.text == process.tiny.tokenizer.decode(own)
        assert found.tables["prompt"]["has_bos"].to_pylist() == [True], "the template's own"


def keyed(frame: pl.DataFrame) -> pl.DataFrame:
    """position_id by index in the prompt, sorted by all that says which row it is."""
    first = frame["position_id"].min()
    keys = [c for c in ("position_id", "layer", "site", "selection", "rank", "neuron") if c in frame.columns]
    return frame.with_columns(pl.col("position_id") - first).drop("run_id", strict=False).sort([k for k in keys if k != "neuron" or "rank" not in keys])


@pytest.mark.parametrize("table", [*TRACED, "sub_update"])
def test_rows_are_those_of_an_ingest_of_the_same_text(opened: atlas.api.Atlas, traced: LiveTrace, table: str) -> None:
    only = " WHERE selection = 'dominant'" if table == "sub_update" else ""
    stored = keyed(opened.sql(f"FROM {table}{only}"))
    live = traced.sql(f"FROM live_{table}{only}").join(traced.positions.filter(arm_id=0).select("position_id"), on="position_id", how="semi")
    live = keyed(live).select(stored.columns)
    assert stored.height == live.height > 0
    for name, column in live.to_dict().items():
        expected = stored[name]
        if column.dtype.is_float():
            np.testing.assert_allclose(column.to_numpy(), expected.to_numpy(), rtol=2e-5, atol=2e-6)
        elif column.dtype == pl.Array:
            np.testing.assert_allclose(column.to_numpy(), expected.to_numpy(), rtol=2e-4, atol=2e-5)
        else:
            assert column.to_list() == expected.to_list(), name


@contextmanager
def without(hf: torch.nn.Module, layer: int, units: list[int]) -> Iterator[None]:
    """By hand: what the down projection reads, those units at 0."""

    def hook(_: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
        changed = args[0].clone()
        changed[..., units] = 0
        return (changed,)

    handle = hf.model.layers[layer].mlp.down_proj.register_forward_pre_hook(hook)
    try:
        yield
    finally:
        handle.remove()


TOKENS = """
SELECT p.token_id FROM live_position AS p JOIN live_sequence USING (sequence_id) JOIN live_document AS d USING (document_id)
WHERE d.corpus_id = -1 ORDER BY p.index
"""


def test_outcomes_are_what_plain_transformers_says(process: World, traced: LiveTrace) -> None:
    hf = process.tiny.hf.double()
    ids = torch.tensor([traced.sql(TOKENS)["token_id"].to_list()])
    with torch.no_grad():
        base = hf(ids).logits[0].log_softmax(-1)
        with without(hf, 1, [3, 7]):
            arm = hf(ids).logits[0].log_softmax(-1)
    hf.float()
    found = traced.sql("FROM live_outcome ORDER BY arm_id, index").partition_by("arm_id")
    answers = base.argmax(-1)
    np.testing.assert_allclose(found[0]["top_prob"], base.max(-1).values.exp(), rtol=1e-5)
    np.testing.assert_allclose(found[1]["answer_logprob"], arm.gather(1, answers[:, None])[:, 0], rtol=1e-5)
    np.testing.assert_allclose(found[1]["kl_from_base"], (base.exp() * (base - arm)).sum(-1), rtol=1e-3, atol=1e-9)
    np.testing.assert_allclose(found[1]["entropy"], -(arm.exp() * arm).sum(-1), rtol=1e-5)
    assert found[1]["top_token_id"].to_list() == arm.argmax(-1).tolist()
    ranks = 1 + (arm > arm.gather(1, answers[:, None])).sum(-1)
    assert found[1]["answer_rank"].to_list() == ranks.tolist()


def greedy(hf: torch.nn.Module, ids: torch.Tensor, n_new: int) -> list[int]:
    """By hand and without a cache: the likeliest token, again and again, up to one that ends the text."""
    for _ in range(n_new):
        with torch.no_grad():
            ids = torch.cat([ids, hf(ids).logits[:, -1:].argmax(-1)], 1)
        if ids[0, -1] == hf.config.eos_token_id:
            break
    return ids[0, -n_new:].tolist()


@pytest.mark.thorough
def test_continuations_are_those_of_plain_transformers(process: World, opened: atlas.api.Atlas) -> None:
    said: list[dict[str, Any]] = []
    found = opened.live().trace(PROMPT, [[ZEROED]], n_new=40, progress=said.append)
    ids = torch.tensor([found.sql(TOKENS)["token_id"].to_list()])
    base, arm = found.sql("SELECT token_ids FROM live_generation ORDER BY arm_id")["token_ids"].to_list()
    assert base == greedy(process.tiny.hf, ids, 40)
    with without(process.tiny.hf, 1, [3, 7]):
        assert arm == greedy(process.tiny.hf, ids, 40)
    texts = [event["texts"] for event in said if "texts" in event]
    assert all(whole.startswith(part.rstrip("\ufffd")) for part, whole in zip(texts[-1], found.continuations["text"], strict=True))
    again = [opened.live().trace(PROMPT, [[ZEROED]], n_new=12, seed=seed).continuations["text"].to_list() for seed in (5, 5, 6)]
    assert (again[0] == again[1], again[0] == again[2]) == (True, False)


def test_an_arm_that_changes_nothing_says_so(traced: LiveTrace) -> None:
    arms = traced.sql("SELECT arm_id, is_as_base FROM live_arm ORDER BY arm_id")
    assert arms.rows() == [(0, True), (1, False), (2, True)]
    assert traced.sql("SELECT max(kl_from_base) FROM live_outcome WHERE arm_id IN (0, 2)").item() == 0.0


def test_questions_answer_for_the_prompt_and_the_atlas_does_not_see_it(opened: atlas.api.Atlas, traced: LiveTrace) -> None:
    at = traced.position_id()
    stored = opened.sql("SELECT max(position_id) AS p FROM trace").item()
    for name, arguments in {
        "prediction_trace": (), "dominant_sub_updates": (1,), "position_events": (), "position_tokens": (), "nearest_states": (1,),
    }.items():  # fmt: skip
        live, corpus = traced.ask(name, at, *arguments), opened.ask(name, stored, *arguments)
        assert live.columns == corpus.columns
        assert live.height == corpus.height > 0 or name == "nearest_states"
    assert traced.ask("token_context", [at])["text_before"].item() == PROMPT.removesuffix("ld")
    assert traced.ask("nearest_states", at, 1, n=3)["corpus_id"].to_list()[-1] in (-3, -2, 0)
    with pytest.raises(AtlasError, match="is not traced"):
        opened.prediction_trace(at)
    assert opened.sql("SELECT min(position_id) FROM trace").item() == 0


def test_the_command_shows_the_prompt_and_the_arm(process: World, tmp_path: Path) -> None:
    arm = tmp_path / "arm.json"
    arm.write_text(json.dumps([ZEROED]))
    done = CliRunner().invoke(cli, ["trace", PROMPT, "--db", str(process.atlas), "--set", "L1N3=0", "--arm", str(arm)])
    assert done.exit_code == 0, done.output
    assert "arm 1, L1N3=0" in done.output
    assert f"arm 2, {arm}" in done.output
    assert "kl_from_base" in done.output


@pytest.mark.thorough
def test_what_is_saved_is_what_the_trace_said(process: World, tmp_path: Path) -> None:
    """On a copy, whose process is the same."""
    copy = tmp_path / "copy.duckdb"
    shutil.copy(process.atlas, copy)
    socket_path(copy).symlink_to(socket_path(process.atlas))
    with atlas.open(copy) as a:
        found = a.live().trace(PROMPT, [[ZEROED], "L1N3=max*0.5"], n_new=3)
        of_arm = found.sql("SELECT max(kl_from_base) FROM live_outcome WHERE arm_id = 1").item()
        assert (found.save("first"), found.save("second", author="somebody")) == (0, 1)
    with atlas.open(copy) as a:
        stored = a.sql("FROM experiments.outcome WHERE experiment_id = 1 ORDER BY arm_id, index")
        live = found.tables["outcome"]
        for name in ("top_token_id", "answer_rank"):
            assert stored[name].to_list() == live[name].to_pylist()
        np.testing.assert_allclose(stored["kl_from_base"], live["kl_from_base"].to_numpy())
        assert a.sql("SELECT title, author, status FROM experiments.experiment ORDER BY experiment_id").rows() == [
            ("first", None, "finished"), ("second", "somebody", "finished"),
        ]  # fmt: skip
        assert a.sql("SELECT name FROM experiments.arm WHERE experiment_id = 0 ORDER BY arm_id")["name"].to_list() == ["base", "arm 1", "L1N3=max*0.5"]
        assert a.sql("SELECT strength_kind, strength FROM experiments.arm_change WHERE experiment_id = 0 AND unit = 3 AND arm_id = 2").rows() == [
            ("times_max", 0.5)
        ]
        assert 0 < a.before_after(0, 0, 1)["kl_from_base"].max() <= of_arm
        assert a.sql("SELECT count(*) FROM experiments.generation").item() == 6
        assert [f.audit.name for f in run_audits(a.con) if f.n_rows] == []


def all_of(found: LiveTrace) -> list[pl.DataFrame]:
    """What a trace answers."""
    at = found.position_id()
    asked = {"prediction_trace": (), "dominant_sub_updates": (1,), "nearest_states": (1,)}
    return [found.positions, found.compare(), found.continuations, *(found.ask(name, at, *arguments) for name, arguments in asked.items())]


@pytest.mark.thorough
def test_a_trace_that_was_kept_is_asked_again_without_the_model(process: World, tmp_path: Path) -> None:
    copy = tmp_path / "copy.duckdb"
    shutil.copy(process.atlas, copy)
    socket_path(copy).symlink_to(socket_path(process.atlas))
    with atlas.open(copy) as a:
        found = a.live().trace(PROMPT, ["L1N3=max*0.5"], n_new=3)
        assert (found.save("with", with_trace=True), found.save("without")) == (0, 1)
        expected = all_of(found)
    socket_path(copy).unlink()
    with atlas.open(copy) as a:
        again = a.live().kept(0)
        assert (again.text, again.tables.keys()) == (PROMPT, found.tables.keys())
        for name, table in found.tables.items():
            assert again.tables[name].equals(table), name
        assert [frame.equals(other) for frame, other in zip(all_of(again), expected, strict=True)] == [True] * len(expected)
        with pytest.raises(AtlasError, match="experiment 1 was saved without its trace"):
            a.live().kept(1)
        with pytest.raises(AtlasError, match="no experiment 2"):
            a.live().kept(2)
        assert [f.audit.name for f in run_audits(a.con) if f.n_rows] == []
    done = CliRunner().invoke(cli, ["trace", "--kept", "0", "--db", str(copy)])
    assert done.exit_code == 0, done.output
    assert "arm 1, L1N3=max*0.5" in done.output


def test_a_trace_of_one_token(opened: atlas.api.Atlas) -> None:
    found = opened.live().trace("x")
    assert found.positions.height == found.positions["index"].max() + 1
    with pytest.raises(AtlasError, match="no token 99 under arm 0"):
        found.position_id(99)
    with pytest.raises(AtlasError, match="this trace has no arm 3"):
        found.position_id(0, arm=3)


BAD = {
    "": "the prompt is empty",
    " \n": "the prompt is empty",
    "x " * 100: "the prompt has 204 tokens; with",
    "\ud800": "text: character 0 is half a surrogate pair",
}


@pytest.mark.parametrize("text", BAD)
def test_prompts_that_cannot_be_read(opened: atlas.api.Atlas, text: str) -> None:
    with pytest.raises(AtlasError, match=BAD[text]) as caught:
        opened.live().trace(text)
    assert "\n" not in str(caught.value)


BAD_ARMS = {
    "L9N1=0": "layer 9 was asked for; .* has layers 0 to 2",
    "L1N99=0": "neuron 99 was asked for",
    "L1H9=0": "head 9 was asked for",
    "L1N1=max*1": None,
    "nonsense": "is no intervention",
}


@pytest.mark.parametrize("short", BAD_ARMS)
def test_arms_that_the_model_has_not(opened: atlas.api.Atlas, short: str) -> None:
    if BAD_ARMS[short] is None:
        assert opened.live().trace("x y", [short]).sql("SELECT value FROM live_arm_change").item() > 0
        return
    with pytest.raises(AtlasError, match=BAD_ARMS[short]):
        opened.live().trace("x", [short])


@pytest.mark.thorough
def test_what_arms_add_up_to_is_bounded(opened: atlas.api.Atlas) -> None:
    """Each by itself is within its limit."""
    zeroed = {"site": "coefficient", "layer": 0, "units": "all", "op": "zero", "positions": "all"}
    with pytest.raises(AtlasError, match=r"the arms make more than 100,000 changes"):
        opened.live().trace("x y", [[zeroed] * (100_000 // (3 * D_FFN) + 1)] * 3)
    # the positions of an intervention are said again for each of its units
    with pytest.raises(AtlasError, match=r", each of one unit at one range of positions"):
        opened.live().trace("x y", [[zeroed | {"positions": list(range(0, 2 * (100_000 // (3 * D_FFN) + 1), 2))}]] * 3)
    with pytest.raises(AtlasError, match=r"under 64 arms is [\d,]+ positions; at most 1,024 are traced at once"):
        opened.live().trace(PROMPT, [[]] * 64)


def test_what_is_longer_than_the_context_is_refused_before_it_is_traced(opened: atlas.api.Atlas) -> None:
    said: list[dict[str, Any]] = []
    with pytest.raises(AtlasError, match="60 new tokens after a prompt of .* are more than its context of 64"):
        opened.live().trace(PROMPT, n_new=60, progress=said.append)
    assert not [event for event in said if event.get("stage") == "forward pass"]


def test_control_characters_are_text_like_any(opened: atlas.api.Atlas) -> None:
    with closing(opened.con.cursor()):
        assert opened.live().trace("\x00\x1b[31m\u202e").positions.height >= 3


def test_the_code_of_the_document_runs(process: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Layers, neurons and heads that the tiny model has stand for those of the demo's."""
    (code,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    for larger, smaller in {"L20N630": "L1N30", "L9H3": "L2H3", "L9H4": "L2H0", ", 20)": ", 2)", "[20]": "[2]"}.items():
        code = code.replace(larger, smaller)
    shutil.copy(process.atlas, tmp_path / "demo.duckdb")
    socket_path(tmp_path / "demo.duckdb").symlink_to(socket_path(process.atlas))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"atlas": atlas}
    exec(code, names)
    assert names["found"].tables["arm"]["arm_id"].to_pylist() == [0, 1, 2]


def with_token(table: pa.Table, column: str, last: object) -> pa.Table:
    """The table, another token in its last row."""
    place = table.column_names.index(column)
    return table.set_column(place, table.schema.field(place), pa.array([*table[column].to_pylist()[:-1], last], table.schema.field(place).type))


FOREIGN = pa.table({"position_id": [1]})
LAST = D_VOCAB - 1
SPOILED: dict[str, tuple[str, Callable[[pa.Table], pa.Table], str]] = {
    "an atlas's table": ("token", lambda _: FOREIGN, 'it has a table "token", and a trace has no such table'),
    "a view's name": ("dominant_sub_update", lambda _: FOREIGN, "a trace has no such table"),
    "its own view's name": ("live_trace", lambda _: FOREIGN, "a trace has no such table"),
    "SQL and what terminals obey": ('";DROP x--\x1b[31m', lambda _: FOREIGN, r'";DROP x--\u001b[31m'.replace('"', '\\"')),
    "a name in other letters": ("Position", lambda _: FOREIGN, "a trace has no such table"),
    "another column": ("trace", lambda t: t.append_column("x\x1b", pa.array([0] * len(t))), r'has a column "x\u001b" that does not belong to it'),
    "a column twice": ("trace", lambda t: t.append_column("position_id", t["position_id"]), "or that it has twice"),
    "text for numbers": ("trace", lambda t: t.set_column(0, t.column_names[0], pa.array(["x"] * len(t))), "text, and not whole numbers"),
    "rows of the atlas": (
        "position",
        lambda t: t.set_column(t.column_names.index("position_id"), "position_id", pa.array(range(len(t)))),
        "rows that lack a position_id below 0",
    ),
    "no columns": ("trace", lambda _: pa.table({}), "rows that lack a position_id below 0"),
    "no arms": ("arm", lambda t: t.slice(0, 0), "its arms are not numbered 0"),
    "a token behind the last": ("position", lambda t: with_token(t, "token_id", D_VOCAB), f"has token {D_VOCAB}, and the atlas has tokens 0 to {LAST}"),
    "a token below 0": ("prompt_token", lambda t: with_token(t, "token_id", -1), "column token_id of its table prompt_token has token -1"),
    "a prediction of no token": ("outcome_token", lambda t: with_token(t, "token_id", D_VOCAB), f"outcome_token has token {D_VOCAB}"),
    "a continuation of no tokens": (
        "generation",
        lambda t: with_token(t, "token_ids", [0, D_VOCAB]),
        f"column token_ids of its table generation has token {D_VOCAB}",
    ),
    "too many arms": ("arm", lambda t: pa.concat_tables([t] * 99), "and a trace has at most 65"),
}


@pytest.mark.ci_cases(7)
@pytest.mark.first_cases(1)
@pytest.mark.parametrize("case", SPOILED)
def test_a_kept_trace_that_somebody_sent_has_the_tables_of_an_answer_and_no_others(
    process: World, tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    name, spoil, expected = SPOILED[case]
    copy = Path(shutil.copy(process.atlas, tmp_path / "copy.duckdb"))
    with atlas.open(process.atlas) as a:
        tables = a.live().trace("x", n_new=1).tables
    save_answer(copy, {**tables, name: spoil(tables.get(name, FOREIGN))} if name not in OF_EXPERIMENT else tables, "sent", None, is_whole=True)
    if name in OF_EXPERIMENT:
        with closing(duckdb.connect(EXPERIMENTS.path(copy))) as con:
            con.execute("UPDATE kept_table SET arrow = ? WHERE name = ?", [stream_of(spoil(tables[name])), name])
    assert run(["trace", "--kept", "0", "--db", str(copy)], False) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n"), "\x1b" in err, "unexpected" in err) == ("", 1, False, False)
    assert "the trace of experiment 0 cannot be read: " in err and expected in err


@pytest.mark.thorough
def test_a_kept_trace_that_expands_to_more_than_it_may_is_not_read(process: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compressed is measured in a process of its own."""
    copy = Path(shutil.copy(process.atlas, tmp_path / "copy.duckdb"))
    with atlas.open(process.atlas) as a:
        save_answer(copy, a.live().trace("x").tables, "sent", None, is_whole=True)
    with closing(duckdb.connect(EXPERIMENTS.path(copy))) as con:
        con.execute("UPDATE kept_table SET arrow = encode(repeat('a', 600_000_000)) WHERE name = 'trace'")
    monkeypatch.setattr(saving, "WHOLE", "it is read")
    with (
        atlas.open(copy) as a,
        pytest.raises(AtlasError, match="the trace of experiment 0 cannot be read: it takes 600,.* bytes, and the limit is 536,870,912"),
    ):
        a.live().kept(0)
