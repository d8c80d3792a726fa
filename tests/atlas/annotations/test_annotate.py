"""`atlas annotate` from the sheet to the figure, as a person types it."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from atlas.beside.annotations import ANNOTATIONS
from atlas.beside.annotations.subjects import SUBJECTS
from atlas.cli.annotate import SUBJECTS as OFFERED
from atlas.cli.main import run
from schema.open.change import change_companion

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(nasty_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Call:
    """Run `atlas …` on the nasty atlas: (exit code, stdout, stderr)."""

    def called(*arguments: str) -> tuple[int, str, str]:
        code = run([*arguments, "--db", str(nasty_path)], False)
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return called


def fill_in(path: Path, explained: tuple[int, ...], of: int = 0) -> None:
    """One shallow pattern that explains these ranks, in this block."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file))
    keys = list(dict.fromkeys(tuple(row[1:3]) for row in rows if row[:1] == ["key"]))
    block = [row for row in rows if tuple(row[1:3]) == keys[of]]
    block[0][12:] = ["shallow", "one"]
    for rank in explained:
        block[rank - 1][10] = "a"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)


@pytest.mark.thorough
def test_from_the_sheet_to_the_figure(call: Call, tmp_path: Path) -> None:
    for name, explained in (("anna", (1, 2, 3)), ("bert", (2, 3, 4))):
        sheet = tmp_path / f"{name}.csv"
        code, out, err = call("annotate", "sheet", "--subject", "keys", "--corpus", "2", "-o", str(sheet))
        assert (code, out, err) == (0, "", f"{sheet}: its first rows say how to fill it in\n")
        assert sheet.read_bytes()[:3] == b"\xef\xbb\xbf"
        fill_in(sheet, explained)
        code, out, err = call("annotate", "load", str(sheet), "--annotator", name, "--format", "json")
        assert (code, err) == (0, f"{sheet}: 1 annotations by {name}\n")
    looks = [(row["subject"], row["annotator"], row["annotator_kind"], row["n_annotated"], row["n_patterns"], row["n_stale"]) for row in json.loads(out)]
    assert looks == [("key", "anna", "person", 1, 1, 0), ("key", "bert", "person", 1, 1, 0)]
    assert json.loads(call("annotate", "status", "--format", "json")[1]) == json.loads(out)
    figure = json.loads(call("ask", "geva2021_fig2", "--format", "json")[1])
    assert [(row["layer"], row["n_keys"], row["n_prefixes"], row["shallow"], row["uncovered"]) for row in figure] == [(0, 2, 16, 0.375, 0.625)]
    (agreement,) = json.loads(call("ask", "annotation_agreement", "--format", "json")[1])
    # 8 texts: both explain 2, one explains 2, neither 4; each explains 3 of 8, so chance agrees on 9/64 + 25/64
    assert (agreement["both_cover"], agreement["one_covers"], agreement["neither_covers"]) == (0.25, 0.25, 0.5)
    assert agreement["kappa"] == pytest.approx((48 - 34) / (64 - 34))
    rows = call("sql", "SELECT p.description, k.text FROM annotations.pattern AS p CROSS JOIN token AS k WHERE k.token_id = 27", "--format", "csv")[1]
    assert rows.splitlines() == ["description,text", "one,007", "one,007"]


def test_a_sheet_is_never_overwritten(call: Call, tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.csv"
    sheet.write_text("somebody's work")
    code, _, err = call("annotate", "sheet", "--subject", "values", "-o", str(sheet))
    assert (code, sheet.read_text()) == (1, "somebody's work")
    assert "exists and may hold somebody's work: name another file" in err


def test_a_refusal_names_the_row_and_exits_with_1(call: Call, nasty_path: Path, tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.csv"
    call("annotate", "sheet", "--subject", "keys", "--corpus", "2", "-o", str(sheet))
    fill_in(sheet, (1, 2))
    code, out, err = call("annotate", "load", str(sheet), "--annotator", "anna")
    assert (code, out) == (1, "")
    assert "row 8: pattern a of key L0N0 of corpus 2 explains 2 texts; the rule is at least 3" in err
    code, out, err = call("annotate", "status")
    assert (code, err) == (0, f"note: no annotations yet; `atlas annotate sheet --db {nasty_path} --subject keys -o keys.csv` writes a sheet to fill in\n")


def test_empty_blocks_stale_items_and_empty_figures_are_said(call: Call, tmp_path: Path, nasty_path: Path) -> None:
    from schema.open import store

    code, _, err = call("ask", "geva2022_fig2")
    assert (code, err) == (0, "note: no rows, because this atlas has no annotations that the question reads (atlas annotate status)\n")
    code, out, err = call("annotate", "propose", "--corpus", "0", "--per-layer", "2", "--format", "json")
    assert (code, err) == (0, "proposals for 6 keys\n")
    assert [(row["annotator"], row["annotator_kind"], row["n_annotated"]) for row in json.loads(out)] == [("miner", "proposed", 6)]
    con = store.open_writer(nasty_path)
    con.execute("DELETE FROM trigger WHERE corpus_id = 0 AND layer = 2")
    con.close()
    _, out, err = call("annotate", "status", "--format", "json")
    assert [row["n_stale"] for row in json.loads(out)] == [6]
    assert err == "note: 6 annotated items differ from what this atlas shows, such as rank 1 of key L2N0 of corpus 0 by miner\n"
    with change_companion(ANNOTATIONS, nasty_path) as writer:
        writer.execute("UPDATE annotations.annotation SET annotator = concat('a', chr(27), '[31m', chr(10), 'b')")
    assert call("annotate", "status")[2].endswith(" by a\\x1b[31m↵b\n")
    sheet = tmp_path / "sheet.csv"
    call("annotate", "sheet", "--subject", "keys", "--corpus", "0", "--per-layer", "1", "-o", str(sheet))
    fill_in(sheet, (1, 2, 3))
    assert "; 1 blocks are empty and count as not looked at" in call("annotate", "load", str(sheet), "--annotator", "anna")[2]
    again = tmp_path / "again.csv"
    call("annotate", "sheet", "--subject", "keys", "--corpus", "0", "--per-layer", "1", "-o", str(again))
    fill_in(again, (1, 2, 3), of=1)
    err = call("annotate", "load", str(again), "--annotator", "anna", "--replace")[2]
    assert "note: 1 of the empty blocks have earlier annotations, which stay; a first row of the kind none" in err


def test_the_offered_subjects_are_those_there_are() -> None:
    assert {s.option: name for name, s in SUBJECTS.items()} == OFFERED


@pytest.mark.parametrize("name", ["sheet", "load", "propose", "status"])
def test_every_part_explains_itself(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert run(["annotate", name, "--help"], False) == 0
    assert capsys.readouterr().out.startswith(f"Usage: atlas annotate {name}")
