"""The folders of the packages: what each is for, and what of ours its files import."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("schema", "ingest", "atlas", "ui")


def folders() -> list[Path]:
    """Every folder with Python files."""
    return sorted({file.parent for package in PACKAGES for file in (ROOT / package).rglob("*.py")})


def first_sentence(file: Path) -> str:
    """The first sentence of a module's docstring, '' where it has none."""
    return cut_sentence(ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "")


def cut_sentence(said: str) -> str:
    """The first sentence of a docstring. “et al.” ends none."""
    return re.split(r"(?<=[.?])(?<! al\.)\s", said.partition("\n\n")[0].replace("\n", " "), maxsplit=1)[0] if said else ""


def imported(file: Path) -> Iterator[str]:
    """Modules of ours that a file imports, dotted."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def room(module: str) -> str | None:
    """The folder that a module, or a name in it, lies in; None where it is not ours."""
    parts = module.split(".")
    if parts[0] not in PACKAGES:
        return None
    path = ROOT.joinpath(*parts)
    while not (path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()):
        path = path.parent
    return (path if (path / "__init__.py").is_file() else path.parent).relative_to(ROOT).as_posix()


def rooms_used(folder: Path) -> list[str]:
    """Other folders of ours that its files import."""
    found = {room(module) for file in folder.glob("*.py") for module in imported(file)}
    return sorted(name for name in found if name is not None and name != folder.relative_to(ROOT).as_posix())
