"""The Python interface of an atlas: one method for each question, free SQL, and a summary of the contents."""

import warnings
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import polars as pl

from atlas.address import parse_head, parse_neuron
from atlas.answers import explain_empty_statement, explain_no_rows, read_answer
from atlas.arguments import signature
from atlas.card import Card, read_card
from atlas.cursors import Parameters
from atlas.dictionary import describe
from atlas.forked import note_opening
from atlas.head_card import HeadCard, read_head_card
from atlas.inventory import Status, read_status, status_html
from atlas.questions import Question, question, questions
from atlas.ranges import check_arguments
from atlas.typed import execution, sandbox
from atlas.typed.hints import add_hints
from schema.errors import AtlasError
from schema.open.open_with_beside import open_with_beside

if TYPE_CHECKING:
    from atlas.live import Live


class Atlas:
    """An open atlas, read-only.

    Every question is a method: `a.top_triggers(3, 17, n=10)` returns a polars frame; `a.questions()` lists them, `help(a.top_triggers)`
    explains one. Close the atlas, or use it as a context manager.
    """

    def __init__(self, path: Path | str, *, memory: str = "4GB") -> None:
        note_opening()
        self.path = Path(path)
        self.con = open_with_beside(self.path, memory=memory)

    def ask(self, name: str, *args: object, **kwargs: object) -> pl.DataFrame:
        """Ask a question by name; its arguments are given in the order of its parameters, or by name.

        Returns a polars frame with the question's columns and grain (what one row stands for): `help(a.NAME)` lists both, with units.
        Raises AtlasError for an unknown question (with the nearest names), wrong arguments, or a layer, neuron, position, corpus or token
        that this atlas does not have. Warns if there are no rows because a run is missing.
        """
        return answer_with_warning(self, name, args, kwargs)

    def sql(
        self, query: str, parameters: Parameters = None, *, max_rows: int = execution.MAX_ROWS, timeout: float = execution.TIMEOUT, own_process: bool = False
    ) -> pl.DataFrame:
        """Run one SELECT over tables, views and questions; `parameters` fill `?` (a list) or `$name` (a dict).

        own_process: run the statement, for example a stranger's, in a separate process. It may read the same tables, but takes no parameters. The
        process ends at its limits of time and memory.
        Returns a polars frame of at most `max_rows` rows. Warns if there are more, and if there are none and the reason is known. `schema()` gives the units.
        Raises QueryRefused for anything but one SELECT over this atlas, QueryTimeout after `timeout` seconds, AtlasError for wrong SQL.
        """
        if own_process and parameters:
            raise AtlasError("a statement with own_process=True takes no parameters: write the values into the statement")
        with add_hints(query):
            if own_process:
                result = sandbox.run(self.path, query, max_rows=max_rows, timeout=timeout)
            else:
                result = execution.run_select(self.con, query, parameters, max_rows=max_rows, timeout=timeout)
        if result.frame.is_empty() and (why := explain_empty_statement(self.con, self.path, query)):
            warnings.warn(f"no rows: {why}", stacklevel=2)
        if result.is_truncated:
            warnings.warn(f"only the first {max_rows} rows: raise max_rows for more", stacklevel=2)
        return result.frame

    def questions(self) -> pl.DataFrame:
        """List the questions, one row each: name, how to call it, title, source paper and section, grain."""
        rows = [{"question": q.name, "call": q.signature, "title": q.title, "source": q.source, "grain": ", ".join(q.grain)} for q in questions().values()]
        return pl.DataFrame(rows)

    def schema(self) -> pl.DataFrame:
        """Read the data dictionary: one row per column of every table and view, with type, unit and meaning."""
        return describe(self.con)

    def status(self) -> Status:
        """Read the model, corpora, runs and row counts of this atlas."""
        return read_status(self.con, self.path)

    def neuron(self, address: str) -> Card:
        """Read the one-page summary of a neuron: `a.neuron("L3N17")`. Raises AtlasError for a malformed or unknown address."""
        layer, neuron = parse_neuron(address)
        check_arguments(self.con, {"layer": layer, "neuron": neuron})
        return read_card(self.con, layer, neuron)

    def head(self, address: str) -> HeadCard:
        """Read the one-page summary of an attention head: `a.head("L3H7")`. Raises AtlasError for a malformed or unknown address."""
        layer, head = parse_head(address)
        check_arguments(self.con, {"layer": layer, "head": head})
        return read_head_card(self.con, self.path, layer, head)

    def collect(self, name: str, members: "pl.DataFrame | Iterable[str]", *, by: str, note: str = "") -> int:
        """Add to a collection beside the atlas: `a.collect("money", a.neurons_promoting("money"), by="ada")`, or addresses such as ["L3N17", "L3H7"].

        Creates the collection, with the note, if it does not exist. Each row of a frame adds its neuron, or else its head, position or token.
        Returns the number of members that are new in the collection. Open the atlas again to read them: an open atlas does not show them.
        Raises AtlasError for members that this atlas does not have.
        """
        from atlas.beside.collections import keeping  # with Arrow, which an atlas is opened without
        from atlas.beside.collections.members import component, in_rows

        found = in_rows(members) if isinstance(members, pl.DataFrame) else [component(address) for address in members]
        return keeping.add(self.con, self.path, name, found, by=by, note=note)[0]

    def live(self) -> "Live":
        """Open the atlas's own model for prompts: `a.live().trace("The city council met")`. The first prompt starts the model's process."""
        from atlas.live import Live  # with Arrow, which an atlas is opened without

        return Live(self.con, self.path)

    def close(self) -> None:
        """Close the file; frames already returned stay usable."""
        self.con.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __getattr__(self, name: str) -> Callable[..., pl.DataFrame]:
        if name.startswith("_") or name not in questions():
            near = get_close_matches(name, [*questions(), "sql", "status", "schema", "questions", "neuron", "head", "live", "collect"], n=3, cutoff=0.4)
            raise AttributeError(f"an atlas has no question or method '{name}'" + (f"; did you mean {', '.join(near)}?" if near else ""))
        return method(self, questions()[name])

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *questions()]

    def __repr__(self) -> str:
        return f"<Atlas {self.path}>"

    def _repr_html_(self) -> str:
        return status_html(self.status())


def answer_with_warning(a: Atlas, name: str, args: tuple[object, ...], kwargs: dict[str, object]) -> pl.DataFrame:
    """Ask a question, and warn the caller's caller if there are no rows because a run is missing."""
    frame = read_answer(a.con, name, *args, **kwargs)
    if frame.is_empty() and (why := explain_no_rows(a.con, a.path, question(name))):
        warnings.warn(f"{name} has no rows, {why}", stacklevel=3)
    return frame


def method(a: Atlas, q: Question) -> Callable[..., pl.DataFrame]:
    """Turn the question into a method, whose docstring and signature come from the question's header."""

    def ask_question(*args: object, **kwargs: object) -> pl.DataFrame:
        return answer_with_warning(a, q.name, args, kwargs)

    ask_question.__name__ = ask_question.__qualname__ = q.name
    ask_question.__doc__ = f"{q.help}\n\nRaises AtlasError for arguments that this atlas does not have."
    ask_question.__signature__ = signature(q)  # type: ignore[attr-defined]
    return ask_question
