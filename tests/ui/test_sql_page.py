"""The SQL page: what a person sends is run, within bounds of the whole server; what a link brings is not."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from streamlit.testing.v1 import AppTest

from atlas.typed.execution import Result
from tests.atlas.test_guard import ATTACKS
from tests.ui.conftest import Visit, tables, text_of
from ui import query, running


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement that is run, whoever asks for it."""
    found: list[str] = []
    run = running.run

    def note_run(path: Path, sql: str, **limits: Any) -> Result:
        found.append(sql)
        return run(path, sql, **limits)

    monkeypatch.setattr(running, "run", note_run)
    return found


def send(app: AppTest, sql: str | None = None) -> AppTest:
    """Write a statement, unless what is there will do, and press Run."""
    if sql is not None:
        app.text_area(key="sql").set_value(sql)
    return next(b for b in app.button if b.label == "Run").click().run()


def press(app: AppTest, key: str) -> AppTest:
    return next(b for b in app.button if b.key == key).click().run()


def rows(app: AppTest) -> pl.DataFrame:
    """Those of the statement: a table of links if they lead somewhere, else the last beside that of the data dictionary."""
    found = tables(app)
    return pl.from_pandas(found[0] if len(found) > len(app.dataframe) else found[-1])


@pytest.mark.thorough
def test_what_was_meant_is_said_as_elsewhere(visit: Visit, tiny: Path) -> None:
    assert "No question has this name; did you mean top_triggers?" in text_of(send(visit(tiny, "sql"), "FROM toptriggers(0, 1)"))


def test_a_statement_without_rows_says_why(visit: Visit, tiny: Path) -> None:
    said = text_of(send(visit(tiny, "sql"), "FROM value_tokens(9, 0)"))
    assert "0 rows" in said and "The reason: value_tokens: no layer 9: this model has layers 0 to 2" in said


@pytest.mark.thorough
def test_a_statement_in_the_address_waits_for_run(visit: Visit, tiny: Path, statements: list[str]) -> None:
    app = visit(tiny, "sql", sql="SELECT 6 * 7 AS answer", chart="true")
    assert app.text_area(key="sql").value == "SELECT 6 * 7 AS answer"
    assert "press Run" in text_of(app)
    app.run()
    app.selectbox(key="relation").set_value("trigger").run()
    assert (statements, "press Run" in text_of(app), "history" in app.session_state) == ([], True, False)
    send(app)
    assert statements == ["SELECT 6 * 7 AS answer"]
    assert rows(app)["answer"].to_list() == [42]
    assert "press Run" not in text_of(app)


@pytest.mark.thorough
def test_a_page_without_a_statement_shows_ours(visit: Visit, tiny: Path, statements: list[str]) -> None:
    app = visit(tiny, "sql")
    assert statements == ["FROM layer_summary()"]
    assert rows(app)["layer"].to_list() == [0, 1, 2]


@pytest.mark.thorough
def test_statements_are_remembered_and_asked_again_by_a_button(visit: Visit, tiny: Path, statements: list[str]) -> None:
    app = send(visit(tiny, "sql", sql="SELECT 6 * 7 AS answer"))
    send(app, "SELECT no_such_column FROM model")
    assert "no_such_column" in text_of(app)
    assert [e.value for e in app.error] == ["This cannot be shown."]
    send(app, "SELECT 1 AS one")
    assert app.session_state["history"] == ["SELECT 1 AS one", "SELECT 6 * 7 AS answer"]
    press(app, "again-1")
    assert app.text_area(key="sql").value == "SELECT 6 * 7 AS answer"
    assert rows(app)["answer"].to_list() == [42]
    assert statements == ["SELECT 6 * 7 AS answer", "SELECT no_such_column FROM model", "SELECT 1 AS one"]


def test_a_question_is_filled_in_as_a_form(visit: Visit, tiny: Path) -> None:
    app = visit(tiny, "sql")
    app.selectbox(key="question").set_value("top_triggers").run()
    app.number_input(key="top_triggers-layer").set_value(2)
    app.number_input(key="top_triggers-neuron").set_value(1)
    next(b for b in app.button if b.label == "Write the statement").click().run()
    assert app.text_area(key="sql").value == "FROM top_triggers(2, 1)"
    assert rows(app)["coefficient"].to_list()[:2] == [3.0, 2.5]


@pytest.mark.first_cases(6)
@pytest.mark.parametrize("statement", ATTACKS)
def test_an_attack_is_refused_on_the_page(visit: Visit, tiny: Path, tmp_path: Path, statement: str) -> None:
    secret, out = tmp_path / "secret.csv", tmp_path / "out"
    secret.write_text("secret\n1\n")
    app = send(visit(tiny, "sql", sql=statement.format(file=secret, out=out) or " "))
    assert not app.exception
    assert [e.value for e in app.error] == ["This cannot be shown."]
    assert not out.exists()


@pytest.mark.thorough
def test_bounds_are_those_that_the_page_names(visit: Visit, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def note_run(path: Path, sql: str, **limits: Any) -> Result:
        given.update(limits, path=path)
        return Result(pl.DataFrame({"one": [1]}), True)

    monkeypatch.setattr(running, "run", note_run)
    app = visit(tiny, "sql")
    given.pop("process")
    assert given == {"path": tiny, "max_rows": 10_000, "timeout": 10.0, "max_bytes": 32 * 1024**2, "memory": 4 * 1024**3}
    assert "at most 10,000 rows, 32 MB and 10 seconds" in text_of(app)


def shown(app: AppTest) -> list[int]:
    (found,) = (table["i"].to_list() for table in tables(app) if list(table) == ["i"])
    return found


@pytest.mark.thorough
def test_a_process_waits_for_the_next_statement_and_answers_no_other(visit: Visit, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[running.Process | None] = []
    run = running.run

    def note_run(path: Path, sql: str, **limits: Any) -> Result:
        used.append(limits["process"])
        return run(path, sql, **limits)

    monkeypatch.setattr(running, "run", note_run)
    app = visit(tiny, "sql")
    for i in range(2):
        (ready,) = running.WAITING
        app = send(app, f"SELECT {i} AS i")
        assert (used[-1], shown(app)) == (ready, [i])
        assert ready.poll() is not None
    (killed,) = running.WAITING
    killed.kill()
    killed.wait()
    app = send(app, "SELECT 2 AS i")
    assert (used[-1], shown(app)) == (None, [2])


@pytest.mark.thorough
def test_few_results_are_kept_however_many_are_asked_for(visit: Visit, tiny: Path, statements: list[str]) -> None:
    app = visit(tiny, "sql")
    asked = [f"SELECT {i} AS i" for i in range(9)]
    for sql in asked:
        send(app, sql)
    assert statements == ["FROM layer_summary()", *asked]
    send(app, asked[1])
    assert statements[10:] == [], "the last eight are kept"
    send(app, asked[0])
    assert statements[10:] == [asked[0]], "and no more"


@pytest.mark.thorough
def test_a_statement_waits_for_a_turn_and_says_so_where_none_comes(visit: Visit, tiny: Path, statements: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "PATIENCE", 0.2)
    app = visit(tiny, "sql")
    with ExitStack() as others:
        others.enter_context(running.turn())
        send(app, "SELECT 1 AS one")
        assert rows(app)["one"].to_list() == [1]
        others.enter_context(running.turn())
        send(app, "SELECT 2 AS two")
        assert "2 statements are running, as many as this server runs at once, and none ended within 0.2 s: press Run again later" in text_of(app)
    send(app)
    assert rows(app)["two"].to_list() == [2]
    assert statements == [query.FIRST, "SELECT 1 AS one", "SELECT 2 AS two"]


@pytest.mark.thorough
def test_a_turn_is_given_back_by_a_statement_that_fails(visit: Visit, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "PATIENCE", 0.2)
    app = visit(tiny, "sql")
    for i in range(3):
        send(app, f"SELECT {i} FROM nowhere")
        assert "nowhere" in text_of(app)


@pytest.mark.thorough
def test_what_was_read_of_another_snapshot_is_not_shown(visit: Visit, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = visit(tiny, "sql")
    newer = Path(tiny.with_name("newer.duckdb"))
    newer.write_bytes(tiny.read_bytes())
    newer.replace(tiny)
    send(app, "SELECT 1 AS one")
    assert "this snapshot has been replaced by a newer one" in text_of(app)
