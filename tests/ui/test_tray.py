"""What readers put aside: rows into a collection, figures into the tray."""

import io
import zipfile
from pathlib import Path

import duckdb
import polars as pl
import pytest
from streamlit.testing.v1 import AppTest

import atlas
from atlas.beside.collections import keeping, members
from tests.ui.conftest import Visit, htmls, text_of
from ui import blocks, query


def collect(path: Path, name: str, *addresses: str) -> None:
    with atlas.open(path) as a:
        a.collect(name, addresses, by="ada", note="of <b>cats</b>")


def test_without_collections_the_panel_says_how_to_come_by_one(tiny: Path, visit: Visit) -> None:
    app = visit(tiny, "evidence", show="collections")
    assert not app.exception
    assert "There are no collections yet" in text_of(app) and "atlas collection add" in text_of(app)


def test_a_collection_is_listed_and_its_members_are_links(tiny: Path, visit: Visit) -> None:
    collect(tiny, "cats + dogs", "L0N1", "L1H0")
    with atlas.open(tiny) as a:
        keeping.add(a.con, tiny, "cats + dogs", [members.position(2), members.token(2)], by="ada")
    listed = "".join(htmls(visit(tiny, "evidence", show="collections")))
    assert "/evidence?show=collections&amp;collection=cats%20%2B%20dogs&amp;of=ww" in listed
    assert "of &lt;b&gt;cats&lt;/b&gt;" in listed
    app = visit(tiny, "evidence", show="collections", collection="CATS + dogs")
    shown = "".join(htmls(app))
    assert not app.exception
    assert 'href="/component?at=L0N1&amp;of=ww"' in shown and 'href="/component?at=L1H0&amp;of=ww"' in shown
    assert "/prediction?position=2" in shown
    assert "4 members." in text_of(app)


def test_a_name_in_a_file_that_was_sent_is_no_markdown(tiny: Path, visit: Visit) -> None:
    collect(tiny, "cats", "L0N1")
    name = "![x](https://example.org/x.png) <b>"
    with duckdb.connect(tiny.with_name("tiny.collections.duckdb")) as con:
        con.execute("UPDATE collection SET name = ?", [name])
    app = visit(tiny, "evidence", show="collections", collection=name)
    assert not app.exception
    assert "<h2><bdi>![x](https://example.org/x.png) &lt;b&gt;</bdi></h2>" in htmls(app)
    assert not [shown.value for shown in (*app.header, *app.markdown, *app.subheader) if "![" in shown.value]


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("INSERT INTO collection SELECT 1 + i, 'n' || i, '', 'eve', now() FROM range(1_000) AS t (i)", "has 1,001 collections, and at most 1,000 are read"),
        ("UPDATE collection SET note = repeat('x', 268_435_456)", "bytes of names and notes, and at most 268,435,456 are read"),
    ],
)
def test_of_a_file_that_was_sent_no_more_is_listed_than_one_may_hold(tiny: Path, visit: Visit, sql: str, said: str) -> None:
    collect(tiny, "cats", "L0N1")
    with duckdb.connect(tiny.with_name("tiny.collections.duckdb")) as con:
        con.execute(sql)
    for address in ({"show": "collections"}, {"show": "collections", "collection": "cats"}):
        app = visit(tiny, "evidence", **address)
        assert not app.exception and said in text_of(app)


@pytest.mark.thorough
def test_a_collection_that_is_larger_than_one_may_be_is_not_drawn(tiny: Path, visit: Visit) -> None:
    collect(tiny, "cats", "L0N1")
    with duckdb.connect(tiny.with_name("tiny.collections.duckdb")) as con:
        con.execute("INSERT INTO collection_member SELECT m.* REPLACE (i + 1 AS number) FROM collection_member AS m, range(100_000) AS t (i)")
    app = visit(tiny, "evidence", show="collections", collection="cats")
    assert not app.exception and "has 100,001 members in 'cats', and at most 100,000 are read" in text_of(app)


@pytest.mark.thorough
def test_of_many_members_the_first_are_drawn(tiny: Path, visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    collect(tiny, "cats", "L0N1")
    with duckdb.connect(tiny.with_name("tiny.collections.duckdb")) as con:
        con.execute("INSERT INTO collection_member SELECT m.* REPLACE (i + 1 AS number) FROM collection_member AS m, range(1_000) AS t (i)")
    seen: list[str] = []
    monkeypatch.setattr(blocks, "visible_text", lambda text: seen.append(text) or text)
    app = visit(tiny, "evidence", show="collections", collection="cats")
    assert not app.exception and "The first 300 of 1,001 rows" in text_of(app)
    assert seen and len(seen) < 2_000


def test_of_a_long_cell_as_much_is_made_visible_as_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []
    monkeypatch.setattr(blocks, "visible_text", lambda text: lengths.append(len(text)) or text)
    frame = pl.DataFrame({"text": ["x" * 100_000], "list": [["y" * 100_000]]})
    assert blocks.readable(frame).rows() == [("x" * 2_048 + "…", "y" * 2_048 + "…")]
    assert lengths == [2_049, 2_049]


def test_a_collection_that_does_not_exist_is_said(tiny: Path, visit: Visit) -> None:
    app = visit(tiny, "evidence", show="collections", collection="<x>")
    assert "no collection '<x>'; there are none yet" in text_of(app)


@pytest.mark.thorough
def test_a_search_is_narrowed_to_a_collection_and_its_address_says_so(tiny: Path, visit: Visit) -> None:
    collect(tiny, "cats", "L0N1", "L2N3")
    everything, narrowed = (visit(tiny, "search", by="promoted token", term="sat", **more) for more in ({}, {"collection": "cats"}))
    assert "3 found." in text_of(everything) and "1 found." in text_of(narrowed)
    assert "in_collection('cats', kind := 'neuron')" in narrowed.code[0].value
    assert "no collection dogs; available: any, cats" in text_of(visit(tiny, "search", by="promoted token", term="sat", collection="dogs"))


def offered() -> None:
    """The form of a dialog, as a page: a rerun of the whole script would close the dialog."""
    from atlas.beside.collections.members import component
    from ui.tray import collecting

    collecting.form([component("L0N1"), component("L1N1")], "x")


@pytest.fixture
def form(tiny: Path, visit: Visit, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    monkeypatch.setenv("ATLAS_DB", str(tiny))
    return AppTest.from_function(offered, default_timeout=60).run()


@pytest.mark.thorough
def test_a_list_offers_its_rows_and_what_names_nothing_offers_none(tiny: Path, visit: Visit) -> None:
    app = visit(tiny, "search", by="promoted token", term="sat")
    assert "found-collection" not in [t.key for t in app.text_input]
    app.button(key="found-collect").click().run()
    assert "found-collection" in [t.key for t in app.text_input]
    assert "corpora-collect" not in [b.key for b in visit(tiny).button]


def test_the_rows_of_a_list_are_put_into_a_collection(tiny: Path, form: AppTest) -> None:
    form.text_input(key="x-collection").set_value("sitting")
    form.text_input(key="x-by").set_value("bea")
    form.text_input(key="x-note").set_value("promotes sat")
    form.button(key="FormSubmitter:x-collecting-Add").click().run()
    assert [s.value for s in form.success] == ["2 added."]
    with atlas.open(tiny) as a:
        assert a.collections().select("name", "n_neurons", "note", "made_by").rows() == [("sitting", 2, "promotes sat", "bea")]


def test_what_is_wrong_with_a_name_is_said_where_it_stands(tiny: Path, form: AppTest) -> None:
    form.text_input(key="x-by").set_value("bea")
    form.button(key="FormSubmitter:x-collecting-Add").click().run()
    assert "cannot name a collection" in form.code[0].value


def test_texts_grids_and_charts_go_to_the_tray_and_come_out_as_files(tiny: Path, visit: Visit) -> None:
    app = visit(tiny, "component", at="L0N1", tab="texts")
    app.button(key="triggers-max-to-figure").click().run()
    app.query_params["tab"] = "numbers"
    app.run()
    app.button(key="histogram-to-figure").click().run()
    assert "In the figure tray (2)" in text_of(app)
    app.query_params["show"] = "figures"
    app.switch_page("app_pages/evidence.py").run()
    assert not app.exception
    assert "2 figures, kept while this tab is open." in text_of(app)
    app.text_area[0].set_value("My caption: 100 %").run()
    kept = app.session_state["tray"]
    assert [k.drawing.name for k in kept] == ["trigger_contexts", "coefficient_histogram"]
    assert kept[0].drawing.caption == "Triggers of a key token by token, texts that repeat folded (layer 0, neuron 1, tail max, per sequence 1)."
    assert kept[0].drawing.provenance["question"] == "trigger_contexts"
    assert kept[0].drawing.svg.count("<rect") > 3 and "colorbox" in kept[0].drawing.latex
    app.button(key=f"{kept[1].id}-up").click().run()
    assert [k.drawing.name for k in app.session_state["tray"]] == ["coefficient_histogram", "trigger_contexts"]
    app.button(key=f"{kept[0].id}-remove").click().run()
    assert "One figure" in text_of(app)


def test_a_grid_and_a_passage_are_drawn_from_the_rows_that_are_shown(tiny: Path) -> None:
    from ui.tray import drawings

    with atlas.open(tiny) as a:
        svg, latex = drawings.grid(a.prediction_trace(2), a.position_events(2))
        n_cells = a.prediction_trace(2).height
    assert svg.count("<rect") == n_cells + 1 and latex == ""
    svg, latex = drawings.reading(pl.DataFrame({"token": ["The", " cat"], "surprisal": [None, 6.0]}), 12.0)
    # half of the way to the end of the scale, and no frame: a passage has no peak
    assert svg.count('fill="rgb(248, 209, 160)"') == 1 and "stroke-width" not in svg
    assert r"\colorbox[RGB]{248,209,160}" in latex and "fcolorbox" not in latex


def test_the_archive_has_the_captions_that_were_written(tiny: Path, visit: Visit) -> None:
    from atlas.export.drawings import Drawing, archive

    with zipfile.ZipFile(io.BytesIO(archive([Drawing("a", "My caption: 100 %", '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>')]))) as folder:
        assert r"\caption{My caption: 100 \%}" in folder.read("figures.tex").decode()


def test_a_caption_says_what_was_asked_about_and_not_how_much_of_it() -> None:
    from ui.data import Answer

    asked = {"layer": 3, "tail": None, "layers": [1, 2], "n": 50, "position_id": 7}
    assert Answer("Triggers.", pl.DataFrame(), "", arguments=asked).caption == "Triggers (layer 3, position id 7)."
    assert Answer("Rows", pl.DataFrame(), "", arguments={"n": 50}).caption == "Rows"
    # what strangers can put into a link
    assert Answer("Rows", pl.DataFrame(), "", arguments={"token": " a\u202e\x07\ud800\n"}).caption == r"Rows (token ␣a\u202e\x07\ud800↵)"
    assert Answer("Rows", pl.DataFrame(), "", arguments={"words": "x" * 1000}).caption == f"Rows (words {'x' * 80}…)"


def test_rows_of_sql_are_captioned_by_what_was_asked() -> None:
    assert query.title_of("from collections.in_collection('x')").startswith("What is in a collection")
    assert query.title_of("SELECT\n  1 AS a") == "Rows of SELECT 1 AS a"
    assert len(query.title_of("SELECT " + "x" * 900)) == len("Rows of ") + query.LONGEST_TITLE + 1
