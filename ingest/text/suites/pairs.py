"""Minimal pairs in JSON lines: as BLiMP publishes them (Warstadt et al. 2020), and as WinoGrande does (Sakaguchi et al. 2020)."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from ingest.text.suites.item import SCORED, Item, Sentence, pair
from ingest.text.suites.reading import check_fields, json_lines, name_of, text_of
from schema.errors import AtlasError

BLIMP = frozenset({"sentence_good", "sentence_bad"})
BLIMP_MORE = frozenset(
    {
        "UID", "linguistics_term", "pairID", "pair_id", "field", "simple_LM_method", "one_prefix_method", "two_prefix_method", "lexically_identical",
        "one_prefix_prefix", "one_prefix_word_good", "one_prefix_word_bad", "two_prefix_prefix_good", "two_prefix_prefix_bad", "two_prefix_word",
    }
)  # fmt: skip
WINOGRAD = frozenset({"sentence", "option1", "option2", "answer"})
WINOGRAD_MORE = frozenset({"qID"})
GAP = "_"


def read_pairs(path: Path, suite: str, _: int) -> Iterator[Item]:
    """Read one pair from each line. Its paradigm is the UID of a BLiMP pair that has one, else the file's name without its suffix."""
    for number, (where, row) in enumerate(json_lines(path)):
        if "option1" in row:
            check_fields(where, row, WINOGRAD, WINOGRAD_MORE)
            yield winograd(where, row, suite, path.stem, name_of(where, row, "qID", str(number)))
        else:
            check_fields(where, row, BLIMP, BLIMP_MORE)
            good, bad = (text_of(where, row, name) for name in ("sentence_good", "sentence_bad"))
            if good == bad:
                raise AtlasError(f"{where}: both sentences of the pair are the same")
            name = name_of(where, row, "pairID", name_of(where, row, "pair_id", str(number)))
            yield pair(suite, name_of(where, row, "UID", path.stem), name, good, bad)


def winograd(where: str, row: Mapping[str, object], suite: str, paradigm: str, name: str) -> Item:
    """Fill the gap with each choice. Only the text behind the gap, which is the same in both sentences, is scored (Trinh and Le 2018, partial scoring)."""
    sentence, answer = text_of(where, row, "sentence"), str(row["answer"])
    before, gap, behind = sentence.partition(GAP)
    if not gap or GAP in behind or not behind.strip():
        raise AtlasError(f"{where}: the sentence must have one {GAP} for the choice, and text behind it, which is scored")
    if answer not in ("1", "2"):
        raise AtlasError(f"{where}: the answer is {answer!r}, and must be 1 or 2")
    choices = {role: text_of(where, row, f"option{n}") for role, n in (("good", answer), ("bad", 3 - int(answer)))}
    texts = {role: before + choice + behind for role, choice in choices.items()}
    return Item(
        "pair", suite, paradigm, name, tuple(Sentence(role, text, {SCORED: (len(text) - len(behind), len(text))}) for role, text in texts.items())
    )  # fmt: skip
