"""Heads asked of models that have few or none that can be read, by the command line: it works, or one line says what fails."""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import torch

import atlas
from atlas.cli.main import run
from ingest.model import models
from schema.audits import run_audits
from schema.open.store import open_reader
from tests.ingest.tiny_models import tiny_hf, tiny_model, tiny_tokenizer, with_facts

torch.set_num_threads(1)

Call = Callable[..., tuple[int, str]]

OF_HEADS = ("--circuit", "--attribution", "--head-probe", "--head-statistics", "--direct-path", "--skip-trigram", "0")


@pytest.fixture
def call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """`atlas ingest` of a tiny model over texts: exit code, and what is said on the standard error stream but the progress."""

    def called(model_type: str, *options: str, texts: tuple[str, ...] = ("the first of the people", "x"), **changes: object) -> tuple[int, str]:
        folder = tmp_path / "my-model"
        tiny_hf(model_type, **changes).save_pretrained(folder)
        tiny_tokenizer().save_pretrained(folder)
        (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        given = [
            "--model",
            str(folder),
            "--corpus",
            str(tmp_path / "texts.jsonl"),
            "--context",
            "16",
            "--trace",
            "5",
            "--triggers",
            "3",
            "--shard-positions",
            "8",
        ]
        code = run(["ingest", str(tmp_path / "a.duckdb"), *given, *options], False)
        said = capsys.readouterr().err.splitlines()
        return code, "\n".join(line for line in said if line.startswith(("Error", "note")))

    return called


@pytest.mark.ci_cases(2)
@pytest.mark.first_cases(1)
@pytest.mark.parametrize("options", [("--circuit",), ("--attribution", "--head-statistics"), ("--head-probe",), ("--skip-trigram", "1")], ids=" ".join)
def test_a_model_whose_attention_is_not_understood_is_refused_with_the_numbers_and_read_without_heads(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    wrong = with_facts(tiny_model("gpt2"), attention__layout="heads").architecture
    monkeypatch.setattr(models, "architecture_of", lambda config, name: wrong)
    code, said = call("gpt2", *options)
    assert code == 1
    assert "\n" not in said
    start, _, rest = said.partition("relative error ")
    assert start == "Error: model my-model (gpt2): the identity pattern @ values = what heads gathered fails at layer 0: "
    assert float(rest.split(",")[0]) > 0.01
    asked = ", ".join(option for option in options if option.startswith("--"))
    assert rest.endswith(f"tolerance 0.0001 in float32; nothing was stored. Without {asked} its FFNs can be recorded")
    assert not (tmp_path / "a.duckdb").exists()
    assert call("gpt2") == (0, "")
    with closing(open_reader(tmp_path / "a.duckdb")) as con:
        assert con.execute("SELECT count(*) FROM neuron_statistics").fetchall() == [(80,)]
        assert con.execute("SELECT count(DISTINCT position_id) FROM sub_update").fetchall() == [(5,)]


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
def test_a_model_without_ffns_is_refused_and_said_what_would_do(call: Call, tmp_path: Path) -> None:
    code, said = call("llama", *OF_HEADS, intermediate_size=0)
    assert code == 1
    assert said == (
        "Error: model my-model: layer 0 has no FFN (mlp.down_proj is empty), and blocks without one are not recorded; "
        "for a model of attention alone, give each block an FFN of one neuron whose weights are zero, as attention-2l-sotu has"
    )


def test_a_layer_that_there_is_not_is_named_with_those_that_there_are(call: Call, tmp_path: Path) -> None:
    assert call("gpt2", "--skip-trigram", "7") == (1, "Error: --skip-trigram 7: my-model has layers 0 to 1")
    assert not (tmp_path / "a.duckdb").exists()


ONE_HEAD = {"num_attention_heads": 1, "num_key_value_heads": 1, "num_hidden_layers": 1}
OF_A_HEAD = [
    ("head_card", {"layer": 0, "head": 0}), ("head_tokens", {"layer": 0, "head": 0}), ("heads_by", {"behaviour": "induction"}), ("copying_heads", {}),
    ("memory_heads", {}), ("composition_edges", {}), ("induction_circuits", {}), ("attention_distance_profile", {"layer": 0, "head": 0}),
    ("skip_trigrams_largest", {"layer": 0, "head": 0}), ("elhage2021_copying", {}), ("elhage2021_bigram", {}),
]  # fmt: skip


@pytest.mark.ci_cases(1)
@pytest.mark.thorough
@pytest.mark.parametrize("texts", [("x", "y", "the first of the people of the world"), ("x", "y", "z")], ids=["some of one token", "all of one token"])
def test_one_head_of_one_layer_and_sequences_of_one_token_have_rows_that_keep_every_rule(call: Call, tmp_path: Path, texts: tuple[str, ...]) -> None:
    code, said = call("llama", *OF_HEADS, "--bos", "never", texts=texts, **ONE_HEAD)
    assert (code, "Error" in said) == (0, False)
    with closing(open_reader(tmp_path / "a.duckdb")) as con:
        assert [f.audit.name for f in run_audits(con) if f.n_rows] == []
        n = {table: con.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0] for table in ("head", "head_statistics", "composition", "virtual_weight")}
        assert n == {"head": 1, "head_statistics": 1, "composition": 0, "virtual_weight": 0}
        at_first = "SELECT DISTINCT a.weight FROM attention AS a INNER JOIN position AS p USING (position_id) WHERE p.index = 0"
        assert con.execute(at_first).fetchall() == [(1.0,)]
        assert con.execute("SELECT max(abs(residual)) < 1e-4 FROM attribution").fetchall() == [(True,)]
    with atlas.open(tmp_path / "a.duckdb") as a:
        found = {name: a.ask(name, **arguments).height for name, arguments in OF_A_HEAD}
    assert (found["head_card"], found["copying_heads"], found["composition_edges"], found["induction_circuits"]) == (1, 1, 0, 0)
