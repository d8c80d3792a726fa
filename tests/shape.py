"""The size and shape of the four packages, counted from their syntax trees: `python -m tests.shape [FOLDER]`, a checkout of any version."""

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import median

from tests.rooms import PACKAGES

FEW_LINES = 30


def list_files(root: Path, *suffixes: str) -> list[Path]:
    """Files of the packages with these endings; all but compiled ones without."""
    found = (path for package in PACKAGES for path in (root / package).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return sorted(path for path in found if not suffixes or path.suffix in suffixes)


def count_statements(tree: ast.AST) -> int:
    """Statements of a module, docstrings apart."""
    return sum(isinstance(node, ast.stmt) and not is_docstring(node) for node in ast.walk(tree))


def is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def count_lines_of_sql(text: str) -> int:
    """Lines that are neither empty nor a comment."""
    return sum(bool(line.strip()) and not line.strip().startswith("--") for line in text.splitlines())


def name_module(root: Path, file: Path) -> str:
    return ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def list_imports(tree: ast.AST, modules: Iterable[str]) -> Iterator[str]:
    """Modules of ours that a module imports, late ones too; not those of annotations alone."""
    known, skipped = set(modules), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            skipped |= {inner for statement in node.body for inner in ast.walk(statement)}
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in known:
                    yield inner
                elif node.module in known:
                    yield node.module


def read_imports(root: Path) -> dict[str, set[str]]:
    """Module → modules that it imports."""
    files = {name_module(root, file): file for file in list_files(root, ".py")}
    found = {name: set(list_imports(ast.parse(file.read_text(encoding="utf-8")), files)) for name, file in files.items()}
    return {name: others - {name} for name, others in found.items()}


def find_circles(imports: Mapping[str, set[str]]) -> list[set[str]]:
    """Sets of modules that import each other, directly or not: strongly connected components of two or more (Tarjan 1972)."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    circles = []

    def visit(name: str) -> None:
        numbers[name] = lowest[name] = len(numbers)
        stack.append(name)
        for other in imports[name]:
            if other not in numbers:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in stack:
                lowest[name] = min(lowest[name], numbers[other])
        if lowest[name] == numbers[name]:
            at = stack.index(name)
            if len(stack) > at + 1:
                circles.append({*stack[at:]})
            del stack[at:]

    for name in imports:
        if name not in numbers:
            visit(name)
    return circles


def measure(root: Path) -> dict[str, int]:
    """Name of each measure → its value."""
    python, sql = list_files(root, ".py"), list_files(root, ".sql")
    lines = [len(file.read_text(encoding="utf-8").splitlines()) for file in python]
    circles = find_circles(read_imports(root))
    return {
        "source files": len(list_files(root)),
        "Python files": len(python),
        "their median, lines": int(median(lines)),
        f"of {FEW_LINES} lines or fewer": sum(n <= FEW_LINES for n in lines),
        "statements of Python": sum(count_statements(ast.parse(file.read_text(encoding="utf-8"))) for file in python),
        "lines of SQL": sum(count_lines_of_sql(file.read_text(encoding="utf-8")) for file in sql),
        "folders": len({file.parent for file in list_files(root)}),
        "circles of imports": len(circles),
        "modules in them": sum(map(len, circles)),
    }


def main() -> None:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1]
    for name, value in measure(root).items():
        print(f"{name:<26}{value:>8,}")


if __name__ == "__main__":
    main()
