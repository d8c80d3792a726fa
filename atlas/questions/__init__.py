"""Questions: one SQL file each in this folder, with a header and one table macro that is stored in every atlas."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from schema.errors import AtlasError
from schema.open.kinds import kinds, read_folder
from schema.release import question_sources

FOLDER = Path(__file__).parent
PARAMETER = re.compile(r"(?P<name>\w+) \((?P<type>[\w\[\]]+)(?:, (?P<default>[^)]+))?\): (?P<meaning>.+)")


@dataclass(frozen=True)
class Parameter:
    """One parameter of a question.

    `type` is integer, bigint, double, text or bigint[]; `default` is the SQL literal, None if the parameter must be given.
    """

    name: str
    type: str
    default: str | None
    meaning: str

    @property
    def is_required(self) -> bool:
        return self.default is None

    @property
    def default_value(self) -> int | float | str | None:
        """The default as a Python value; None for SQL NULL."""
        if self.default is None or self.default == "NULL":
            return None
        if self.default.startswith("'"):
            return self.default.strip("'")
        return float(self.default) if self.type == "double" else int(self.default)


@dataclass(frozen=True)
class Question:
    """A question: its header, and the SQL that installs its macro. `columns` maps each column of the answer to its meaning and unit.

    `n`: the column with the number of things that a row averages over; '' if rows are no averages.
    """

    name: str
    title: str
    source: str
    grain: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    columns: dict[str, str]
    chart: str
    sql: str
    catalog: str = ""
    n: str = ""

    @property
    def macro(self) -> str:
        """Name of the macro in SQL, with the name of its database in front unless the database is the atlas itself."""
        return f"{self.catalog}.{self.name}" if self.catalog else self.name

    @property
    def call(self) -> str:
        """Statement that asks the question, with every parameter bound by name: `FROM top_triggers(layer := $layer, …)`."""
        return f"FROM {self.macro}({', '.join(f'{p.name} := ${p.name}' for p in self.parameters)})"

    @property
    def sentence(self) -> str:
        """Title of the question, with a full stop unless it ends with a question mark."""
        return self.title if self.title.endswith("?") else f"{self.title}."

    @property
    def help(self) -> str:
        """Title, source, grain, parameters and columns as a docstring."""
        lines = [self.sentence, "", f"Source: {self.source}.", f"One row per {', '.join(self.grain)}.", ""]
        if self.parameters:
            lines += ["Parameters:", *(f"    {p.name}: {p.meaning}" for p in self.parameters), ""]
        return "\n".join([*lines, "Columns:", *(f"    {name}: {meaning}" for name, meaning in self.columns.items())])

    @property
    def signature(self) -> str:
        """Call of the question as people write it: `top_triggers(layer, neuron, n := 25)`."""
        return f"{self.macro}({', '.join(p.name if p.is_required else f'{p.name} := {p.default}' for p in self.parameters)})"


def header(sql: str) -> Iterator[tuple[str, str]]:
    """Yield (key, text) for each of the `-- key: text` lines at the beginning of a file."""
    for line in sql.splitlines():
        match = re.match(r"-- (\w+):\s+(.+)", line)
        if match is None:
            return
        yield match[1], match[2].strip()


def parse_parameter(name: str, text: str) -> Parameter:
    match = PARAMETER.fullmatch(text)
    if match is None:
        raise AtlasError(f"atlas/questions/{name}.sql: '-- param: {text}' is not 'name (type, default): meaning'")
    return Parameter(**match.groupdict())


def parse_question(name: str, sql: str, catalog: str = "") -> Question:
    """Read the header of a question's file. catalog: the attached database that has the question's macro, '' for the atlas.

    Raises AtlasError with the name of the file and what its header lacks.
    """
    lines = list(header(sql))
    found = {key: text for key, text in lines if key not in ("param", "column")}
    missing = {"title", "source", "grain", "chart"} - set(found)
    if missing:
        raise AtlasError(f"atlas/questions/{name}.sql: its header has no {', '.join(sorted(missing))}")
    return Question(
        name=name,
        title=found["title"],
        source=found["source"],
        grain=tuple(found["grain"].split(", ")),
        parameters=tuple(parse_parameter(name, text) for key, text in lines if key == "param"),
        columns=dict(text.split(": ", 1) for key, text in lines if key == "column"),
        chart=found["chart"],
        sql=sql,
        catalog=catalog,
        n=found.get("n", ""),
    )


@cache
def questions() -> dict[str, Question]:
    """Read every installed question, by name in alphabetical order: those of atlases, and those of the files beside them.

    Raises AtlasError for two questions of one name.
    """
    found = [(name, sql, "") for name, sql in question_sources().items()]
    found += [(name, sql, kind.name) for kind in kinds() for name, sql in kind.questions().items()]
    if twice := sorted(name for name, n in Counter(name for name, *_ in found).items() if n > 1):
        raise AtlasError(f"two questions are called {twice[0]}, in {' and '.join(catalog or 'atlases' for name, _, catalog in found if name == twice[0])}")
    return {name: parse_question(name, sql, catalog) for name, sql, catalog in sorted(found)}


def question(name: str) -> Question:
    """Find the question of that name. Raises AtlasError, with near names or another hint, if there is none."""
    if name in questions():
        return questions()[name]
    raise AtlasError(explain_unknown_name(name))


def explain_unknown_name(name: str) -> str:
    """Write the error for a name that no question has, with suggestions: near names, titles that have the word, or how to ask about a token."""
    near = similar_names(name) or [q.name for q in find_questions(name)][:5]
    if near:
        return f"no question '{name}'; did you mean {', '.join(near)}?"
    about = f"neurons_promoting('{name}'), neurons_triggered_by('{name}') or neurons_with_words('{name}')"
    return f"no question has '{name}' in its name or title. If it is a word of the text, ask {about}. `atlas questions` lists all"


def similar_names(name: str, likeness: float = 0.6) -> list[str]:
    """Find the names of questions that may have been meant, the nearest first. likeness: least similarity of the names, in [0, 1]; 1 is for equal names."""
    return get_close_matches(name, questions(), n=3, cutoff=likeness)


def find_questions(words: str) -> list[Question]:
    """Find the questions that have all the words in name, title or source, ignoring case."""
    return [q for q in questions().values() if all(word in f"{q.name} {q.title} {q.source}".lower() for word in words.lower().split())]


def macro_files() -> dict[str, str]:
    """Read the questions in this folder: name → SQL."""
    return read_folder(FOLDER)
