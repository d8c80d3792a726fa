"""A function is named by a verb and its object, or by the noun that it returns: not by participles, prepositions and adjectives alone."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("schema", "ingest", "atlas", "ui")

IRREGULAR = """
    begun bound bought brought built caught chosen cut done drawn driven fallen fed found frozen given gone held hidden hit kept known laid led left lit
    lost made meant met paid put ran read said seen sent set shown shut sold spelt spent split spoken stood swept taken taught thought told torn
    understood was woken worn written
"""
NO_NOUNS = """
    about across after again against all alone always and another any apart around aside at bad before behind beside best better both but by canonical
    causal different each early either empty every few finite first for free from full here in into just large larger largest last late least left like long
    longer many missing more most much narrow near nearest neither never new next no none not now of off old on once only or other others out over own past
    plain principal quiet real right same short shorter single small smaller smallest some stray strange than there through to together too twice under
    unseen up visible whole wide with within without worse worst wrong
"""
NOUNS_IN_ED_AND_ING = """
    encoding embedding filling finding heading listing mapping meaning need padding ranking reading recording rounding seed setting spacing speed string
    thing unembed unembedding warning
"""

EXCEPTIONS = {
    "atlas.live.session.Live.kept": "public: documents show it",
    "ingest.into_cli.into": "the command's own name",
    "ingest.store.committer.Store.staging": "a noun: where shards wait to be loaded",
    "ingest.store.committer.FileStore.staging": "the same",
    "ingest.store.lake.store.LakeStore.staging": "the same",
    "ingest.text.chat_template.OneDay.now": "what datetime calls it",
    "schema.columns.added": "the text of the tables' declarations is the release that an atlas was made by",
    "schema.columns.bounded": "the same",
    "ui.prediction.traces.RunCache.put": "beside get",
    "ui.snapshot.Snapshot.published_at": "a time",
}
"""Names that stay, and why."""


def is_bare(name: str) -> bool:
    """Tell whether a name has no verb and no noun. A predicate (is_, has_) has one."""
    words = name.strip("_").split("_")
    no_nouns = {*IRREGULAR.split(), *NO_NOUNS.split()}
    nouns = set(NOUNS_IN_ED_AND_ING.split())
    return words[0] not in ("is", "has") and all(w in no_nouns or (re.search(r"..(ed|ing)$", w) and w not in nouns) for w in words)


def functions(node: ast.AST, place: str) -> Iterator[str]:
    """Dotted names of the functions and methods under a node, those inside others too."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{place}.{child.name}"
            if not isinstance(child, ast.ClassDef) and not child.name.startswith("__"):
                yield name
            yield from functions(child, name)
        else:
            yield from functions(child, place)


def test_no_function_is_named_by_participles_and_prepositions_alone() -> None:
    named = [
        name
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for name in functions(ast.parse(path.read_text()), ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
    ]
    assert len(named) > 3000
    assert {name for name in named if is_bare(name.rpartition(".")[2])} == set(EXCEPTIONS)


@pytest.mark.parametrize("name", ["chosen", "said_of", "looked_up", "kept", "read", "_cut_all", "largest", "within", "put"])
def test_what_says_nothing_is_bare(name: str) -> None:
    assert is_bare(name)


@pytest.mark.parametrize("name", ["choose_token", "folded_gain", "is_free", "read_rows", "embedding", "split_documents"])
def test_what_says_something_is_not(name: str) -> None:
    assert not is_bare(name)
