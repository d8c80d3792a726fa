"""`atlas paper`: what it writes, what it says of what it cannot write, and how it treats nasty text."""

import json
import re
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import duckdb
import polars as pl
import pytest

import atlas
from atlas.beside.experiments import EXPERIMENTS
from atlas.beside.retrieval import RETRIEVALS
from atlas.cli.main import run
from atlas.papers.catalogue import PAPERS
from atlas.papers.write import TABLE_FORMATS
from tests.atlas.test_latex import document, plainest

NASTY = {2: "<script>alert(1)</script>", 3: " *[5pt]</article>", 4: "\\hline_%&#$|`x`", 10: "日本🙂שלום", 5: "\u202e\x07"}
"""Token → text. The first four are the top tokens of the values."""

OF_PROBES = {"hewitt_liang2019": 1, "hewitt_manning2019": 2, "voita_titov2020": 1, "clark2019": 1}

MADE_HERE = {"geva2021": 17, "geva2022": 13, "elhage2021": 7, "meng2022": 2, "geva2023": 1, "khandelwal2020": 4, **OF_PROBES}
"""Items that need no annotations."""

OF_ONE_TEXT = dict.fromkeys(("geva2021", "geva2022"), ("--corpus", "0"))
"""Paper → options, where its items are of one text and the atlas has two."""

FIGURES = {"pdf", "svg", "png"}

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str]) -> Call:
    def called(*arguments: str | Path) -> tuple[int, str, str]:
        code = run(["paper", *map(str, arguments)], False)
        return code, *capfd.readouterr()

    return called


@pytest.fixture(scope="module")
def nasty(tiny_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny atlas with tokens and texts that would break a page, a table or a path."""
    path = Path(shutil.copy(tiny_path, tmp_path_factory.mktemp("nasty") / "<b>nasty&.duckdb"))
    for kind in (EXPERIMENTS, RETRIEVALS):
        shutil.copy(kind.path(tiny_path), kind.path(path))
    with duckdb.connect(str(path)) as con:
        con.executemany("UPDATE token SET text = ? WHERE token_id = ?", [(text, i) for i, text in NASTY.items()])
    return path


@pytest.fixture(scope="module")
def out(nasty: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both papers in one folder."""
    folder = tmp_path_factory.mktemp("papers") / "out"
    for paper in PAPERS:
        assert run(["paper", paper, str(nasty), "-o", str(folder), "--threshold", "1.5", *OF_ONE_TEXT.get(paper, ())], False) == 0
    return folder


def test_every_item_has_all_its_files_with_their_provenance(out: Path) -> None:
    found = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    wanted = {"index.html"}
    for paper in PAPERS.values():
        items = [item for item in paper.items if not any(need.startswith("annotated") for need in item.needs)]
        assert len(items) == MADE_HERE[paper.name]
        for item in items:
            files = {f"tables/{item.name}.{suffix}" for suffix in TABLE_FORMATS} | {f"figures/{item.name}.{s}" for s in FIGURES if item.chart}
            wanted |= files | {f"{file}.provenance.json" for file in files}
    assert found == wanted


def test_a_sidecar_says_what_to_repeat_and_what_to_cite(out: Path) -> None:
    found = json.loads((out / "figures" / "geva2021_fig4.pdf.provenance.json").read_text(encoding="utf-8"))
    assert found["item"] == "geva2021_fig4"
    assert found["place"] == "Figure 4"
    assert found["question"] == "geva2021_fig4"
    assert found["parameters"] == {"corpus": 0}
    assert "CREATE OR REPLACE MACRO geva2021_fig4" in found["sql"]
    assert found["model"]["name"] == "tiny" and found["model"]["revision"] == "r0" and found["model"]["weights_sha256"] == "ww"
    assert [c["sha256"] for c in found["corpora"]] == ["aa"]
    # it rests on the weights and the sweeps, not on traces
    assert [(r["kind"], r["corpus_id"]) for r in found["runs"]] == [("weights", None), ("sweep", 0)]
    assert all(r["settings"] == {"model": "tiny"} and "seed" in r and "device" in r and "versions" in r for r in found["runs"])
    assert found["n"].endswith(" keys") and "no text switches on" in found["exclusions"]
    assert {"python", "activation-atlas", "duckdb", "polars", "altair", "vl-convert-python"} == set(found["versions"])
    assert "commit" in found and found["n_rows"] == 3
    table6 = json.loads((out / "tables" / "geva2022_table6.csv.provenance.json").read_text(encoding="utf-8"))
    assert table6["question"] is None and "early_exit" in table6["sql"] and table6["parameters"] == {"corpus": 0}
    clusters = json.loads((out / "tables" / "geva2022_extreme_clusters_value.csv.provenance.json").read_text(encoding="utf-8"))
    assert clusters["parameters"] == {"space": "value", "threshold": 1.5, "n": 25, "corpus": 0}


class Page(HTMLParser):
    """Collects what a browser would load, the text, and whether every tag is closed."""

    VOID = ("meta", "img", "br")

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.tags: set[str] = set()
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.loads += [str(value) for name, value in attributes if name in ("src", "href", "srcset", "data", "action")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def page(out: Path) -> Page:
    return Page((out / "index.html").read_text(encoding="utf-8"))


def test_the_page_parses_and_loads_nothing_from_elsewhere(out: Path, page: Page) -> None:
    assert page.open == []
    assert not {"script", "link", "iframe", "object", "b"} & page.tags
    for target in page.loads:
        assert target.startswith(("#", "data:image/svg+xml;base64,")) or (out / target).is_file(), target
    html = (out / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"https?://|@import|url\(", html)


def test_the_page_has_every_item_of_both_papers(out: Path, page: Page) -> None:
    html = (out / "index.html").read_text(encoding="utf-8")
    for paper in PAPERS.values():
        assert paper.citation in page.text
        for item in paper.items:
            assert html.count(f'<section id="{item.name}">') == 1
            assert item.heading in page.text
    assert "no annotated keys of corpus 0: `atlas annotate sheet --db" in page.text
    assert "Geva et al. 2021 report, for WikiLM: at least 68% in every layer" in page.text
    assert page.text.count("CREATE OR REPLACE MACRO") == sum(MADE_HERE.values()) - 3  # all but table 1, table 6 and Khandelwal et al.'s figure 7


def test_the_page_shows_nasty_tokens_as_they_are(page: Page) -> None:
    for text in (NASTY[2], "␣*[5pt]</article>", NASTY[4], NASTY[10], "\\u202e\\x07", "<b>nasty&.duckdb"):
        assert text in page.text, text
    assert "\u202e" not in page.text and "\x07" not in page.text


@pytest.mark.long
def test_a_second_paper_and_a_second_call_leave_the_rest_of_the_page(call: Call, out: Path, nasty: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    assert call("geva2022", nasty, "-o", folder, "--only", "fig3", "--corpus", "0")[0] == 0
    assert call("geva2021", nasty, "-o", folder, "--only", "fig4", "--only", "geva2021_fig6", "--corpus", "0")[0] == 0
    assert call("geva2021", nasty, "-o", folder, "--only", "fig9", "--corpus", "0")[0] == 0
    html = (folder / "index.html").read_text(encoding="utf-8")
    assert re.findall(r'<section id="(\w+)">', html) == ["geva2021_fig9", "geva2022_fig3"]
    assert len(list(folder.glob("figures/*.pdf"))) == 4


@pytest.mark.thorough
def test_latex_of_all_items_compiles_and_prints_the_tokens(out: Path, page_text: Callable[[str], str]) -> None:
    sources = [path.read_text(encoding="utf-8") for path in sorted((out / "tables").glob("*.tex"))]
    assert len(sources) == sum(MADE_HERE.values())
    # one page for each: LaTeX holds back no more than 18 floats
    text = plainest(page_text(document("\n\\clearpage\n".join(sources))))
    shown = [NASTY[2], "*[5pt]</article>", NASTY[4], "U+65E5U+672CU+1F642U+05E9U+05DCU+05D5U+05DD"]
    assert [token for token in shown if plainest(token) not in text] == []
    for paper in PAPERS.values():
        for item in paper.items:
            path = out / "tables" / f"{item.name}.tex"
            if path.exists():
                source = path.read_text(encoding="utf-8")
                assert rf"\label{{tab:{item.name}}}" in source
                assert plainest(item.caption(pl.read_parquet(path.with_suffix(".parquet")))) in text


def test_the_definition_of_active_is_in_the_tables_that_rest_on_it(out: Path) -> None:
    for name in ("geva2021_fig7", "geva2021_fig8", "geva2021_fig8_agreeing"):
        assert "Active, in this model (silu, gated), means coefficient > 0: the sign alone" in plain_tex(out / "tables" / f"{name}.tex")
        assert "coefficient > 0" in pl.read_parquet(out / "tables" / f"{name}.parquet")["active_means"][0]


def plain_tex(path: Path) -> str:
    return path.read_text(encoding="utf-8").replace(r"\textgreater{}", ">")


def test_the_whole_rows_are_in_csv_and_parquet(out: Path) -> None:
    whole = pl.read_parquet(out / "tables" / "geva2021_top_values.parquet")
    assert whole.height == 12 and whole.width == 9
    assert pl.read_csv(out / "tables" / "geva2021_top_values.csv").height == 12
    assert set(whole["token"]) == {NASTY[i] for i in (2, 3, 4, 10)}


@pytest.fixture
def at_one_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")


@pytest.mark.thorough
@pytest.mark.usefixtures("at_one_time")
def test_twice_gives_the_same_bytes(call: Call, nasty: Path, tmp_path: Path) -> None:
    contents = []
    for name in ("first", "second"):
        call("geva2021", nasty, "-o", tmp_path / name, "--only", "fig11", "--only", "table2", "--corpus", "0")
        files = [path for path in sorted((tmp_path / name).rglob("*")) if path.is_file() and path.suffix != ".pdf"]
        contents.append({path.relative_to(tmp_path / name): path.read_bytes() for path in files})
    assert contents[0] == contents[1]
    assert len(contents[0]) == 27


@pytest.mark.thorough
def test_what_an_atlas_lacks_is_listed_with_the_command_that_would_provide_it(call: Call, empty_path: Path, tmp_path: Path) -> None:
    for paper in PAPERS.values():
        code, shown, told = call(paper.name, empty_path, "-o", tmp_path / "out")
        assert code == 0
        for item in paper.items:
            line = next(line for line in shown.splitlines() if line.startswith(f"{item.name} "))
            assert re.search(r"no .+: `atlas (ingest|annotate|experiment) ", line)
        assert f"0 of {len(paper.items)} items" in told
    html = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert html.count('<p class="none">') == sum(len(paper.items) for paper in PAPERS.values())


def test_a_page_of_one_s_own_is_not_written_over(call: Call, tiny_path: Path, tmp_path: Path) -> None:
    own = tmp_path / "index.html"
    own.write_text("<h1>My pages</h1>", encoding="utf-8")
    code, _, told = call("geva2022", tiny_path, "-o", tmp_path, "--only", "table4", "--corpus", "0")
    assert (code, own.read_text(encoding="utf-8"), list(tmp_path.iterdir())) == (1, "<h1>My pages</h1>", [own])
    assert f"cannot write {own}: it is there, and no page of papers; give another folder, or move it away" in told


def test_an_item_without_rows_says_so(call: Call, tiny_path: Path, tmp_path: Path) -> None:
    code, shown, _ = call("geva2022", tiny_path, "-o", tmp_path, "--only", "extreme_clusters_value", "--threshold", "99", "--corpus", "0")
    assert code == 0
    assert "no rows: no dominant sub-update scores its candidate beyond the threshold; --threshold sets another" in shown


@pytest.mark.thorough
def test_a_file_that_lacks_a_question_answers_it_all_the_same(call: Call, tiny_path: Path, tmp_path: Path) -> None:
    old = Path(shutil.copy(tiny_path, tmp_path / "old.duckdb"))
    with duckdb.connect(str(old)) as con:
        con.execute("DROP MACRO TABLE geva2021_fig9")
    assert call("geva2021", old, "-o", tmp_path / "old", "--only", "fig9", "--corpus", "0")[0] == 0
    assert call("geva2021", tiny_path, "-o", tmp_path / "new", "--only", "fig9", "--corpus", "0")[0] == 0
    old_rows, new_rows = (pl.read_parquet(tmp_path / folder / "tables" / "geva2021_fig9.parquet") for folder in ("old", "new"))
    assert old_rows.height > 0 and old_rows.equals(new_rows)


def test_an_item_that_fails_does_not_stop_the_others_and_fails_the_call(call: Call, tiny_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = atlas.Atlas.ask

    def failing(a: atlas.Atlas, name: str, **arguments: object) -> pl.DataFrame:
        return a.sql("SELECT CAST(version() AS INTEGER) AS layer") if name == "geva2021_fig9" else ask(a, name, **arguments)

    monkeypatch.setattr(atlas.Atlas, "ask", failing)
    code, shown, _ = call("geva2021", tiny_path, "-o", tmp_path / "out", "--only", "fig9", "--only", "fig10", "--corpus", "0")
    assert code == 1
    assert "Conversion Error" in shown
    assert (tmp_path / "out" / "figures" / "geva2021_fig10.pdf").exists()


@pytest.mark.thorough
def test_one_corpus_can_be_chosen(call: Call, tiny_path: Path, tmp_path: Path) -> None:
    assert call("geva2021", tiny_path, "-o", tmp_path, "--only", "fig9", "--corpus", "1")[0] == 0
    assert pl.read_parquet(tmp_path / "tables" / "geva2021_fig9.parquet")["n_positions"].to_list() == [1, 1, 1]
    sidecar = json.loads((tmp_path / "tables" / "geva2021_fig9.tex.provenance.json").read_text())
    assert [(r["kind"], r["corpus_id"]) for r in sidecar["runs"]] == [("weights", None), ("trace", 1)]
    code, _, told = call("geva2021", tiny_path, "-o", tmp_path, "--corpus", "7")
    assert code == 1 and "no corpus 7" in told


@pytest.mark.thorough
def test_one_retrieval_can_be_chosen(call: Call, tiny_path: Path, tmp_path: Path) -> None:
    for chosen in ([], ["--retrieval", "0"]):
        assert call("khandelwal2020", tiny_path, "-o", tmp_path, "--only", "fig7", *chosen)[0] == 0
        assert set(pl.read_parquet(tmp_path / "tables" / "khandelwal2020_fig7.parquet")["retrieval"]) == {0}
    sidecar = json.loads((tmp_path / "tables" / "khandelwal2020_fig7.tex.provenance.json").read_text())
    assert sidecar["parameters"] == {"retrieval": 0}
    assert {run["kind"] for run in sidecar["runs"]} == {"weights", "prediction", "ngram", "keys"}
    code, shown, _ = call("khandelwal2020", tiny_path, "-o", tmp_path, "--only", "fig7", "--retrieval", "4")
    assert code == 1 and "no retrieval 4; available: 0" in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["geva2021", "-o", "out"], "which atlas?"),
        (["geva2020", "-o", "out"], "geva2021"),
        (["geva2021", "ATLAS"], "Missing option '-o'"),
        (["geva2021", "ATLAS", "-o", ""], "an empty name is not a folder"),
        (["geva2021", "ATLAS", "-o", "out", "--only", "fig44"], "did you mean geva2021_fig4"),
    ],
)
def test_wrong_calls_are_named(call: Call, tiny_path: Path, tmp_path: Path, arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ATLAS_DB", raising=False)
    monkeypatch.chdir(tmp_path)
    code, _, told = call(*[str(tiny_path) if a == "ATLAS" else a for a in arguments])
    assert code == 2
    assert said in told
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_no_folder(call: Call, tiny_path: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    code, _, told = call("geva2021", tiny_path, "-o", tmp_path / "file" / "out")
    assert code == 1 and "cannot make the folder" in told
    assert (tmp_path / "file").read_text() == "mine"
