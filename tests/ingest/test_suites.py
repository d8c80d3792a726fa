"""What suites may say, and what is refused in one line; the generator and the perturbations against rules of this file's own."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from transformers import PreTrainedTokenizerFast

from ingest.cli import ingest
from ingest.suite_cli import group_suite_files
from ingest.suite_cli import test as command
from ingest.text.corpora import Document
from ingest.text.sequences import bos_token
from ingest.text.suites import by_paradigm, open_suites
from ingest.text.suites.agreement import PARADIGMS, agreement
from ingest.text.suites.formulas import CONSTANT, parse_formula
from ingest.text.suites.item import CRITICAL, Item, differing_words
from ingest.text.suites.perturbations import perturb_text
from ingest.text.suites.templates import check_nodes
from schema.errors import AtlasError
from tests.ingest.suite_files import GYM, PAIRS, TEMPLATES, written_suite


def opened(*specs: object, n_items: int = 20, seed: int = 0) -> list[Document]:
    return list(open_suites([str(spec) for spec in specs], n_items=n_items, seed=seed).documents())


PLURAL = {"is": "are", "was": "were", "has": "have", "himself": "themselves", "treaty": "treaties"}


@pytest.mark.parametrize("paradigm", PARADIGMS)
def test_generated_pairs_differ_in_the_number_of_one_word(paradigm: str) -> None:
    items = [item for item in agreement(40, 3) if item.paradigm == paradigm]
    assert len({sentence.text for item in items for sentence in item.sentences}) == 80
    numbers = Counter()
    for item in items:
        good, bad = (s.text[slice(*s.regions[CRITICAL])].strip(".").split()[0] for s in item.sentences)
        one, several = sorted((good, bad), key=lambda word: (word in PLURAL.values() or word.endswith("s"), word))
        if one not in PLURAL:
            one, several = sorted((good, bad), key=len)
        assert several == PLURAL.get(one, f"{one}s")
        numbers[good == one] += 1
    assert numbers == {True: 20, False: 20}


def test_attractors_are_of_the_other_number_than_the_subject() -> None:
    for item in agreement(30, 0):
        if item.paradigm.startswith("verb"):
            text = item.sentences[0].text
            nouns = re.findall(r"[Tt]he (\w+)", text)
            is_plural = [noun.endswith("s") for noun in nouns]
            assert len(nouns) == 1 + {"no": 0, "one": 1, "two": 2}[item.paradigm.split("_")[1]]
            assert set(is_plural[1:]) <= {not is_plural[0]}


def test_what_is_drawn_depends_on_the_seed_alone_and_more_contain_fewer() -> None:
    names = {item.name: item for item in agreement(30, 5) if item.paradigm == "reflexive"}
    assert {item.name: item for item in agreement(10, 5) if item.paradigm == "reflexive"}.items() <= names.items()
    assert agreement(5, 5) == agreement(5, 5) != agreement(5, 6)


@pytest.mark.parametrize(
    ("one", "other", "left"),
    [
        ("The cat sat.", "The dogs sat.", ("cat", "dogs")),
        ("a b c d", "a x y c d", ("b", "x y")),
        ("a b", "b", None),
        ("Who ran", "Who  ran off", None),
        ("x", "y", ("x", "y")),
        ("a a", "a a a", None),
        ("b  a", "c a", ("b", "c")),
    ],
)
def test_words_in_which_two_texts_differ(one: str, other: str, left: tuple[str, str] | None) -> None:
    found = differing_words(one, other)
    assert (found and tuple(text[slice(*span)] for text, span in zip((one, other), found, strict=True))) == left


def test_formulas_are_taken_apart() -> None:
    (first,), (second, third) = parse_formula("f", "[(2;%a b%) - (2;%c%)] > 0.5 & ((3;%c%) < (*;%a b%) | (1;%c%) = (1;%c%) - 2)")
    assert (first.operator, first.weights) == ("greater", {("a b", "2"): 1, ("c", "2"): -1, CONSTANT: -0.5})
    assert second.weights == {("a b", "*"): 1, ("c", "3"): -1}
    assert (third.operator, third.weights) == ("equal", {("c", "1"): 0, CONSTANT: 2})


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("(2;%a%)", "compares nothing"),
        ("(2;%a%) >", "is no formula from character 9"),
        ("(2;%a%) > (2;%b%) > 1", "is no formula from character 18"),
        ("__import__('os')", "cannot be read from character 0"),
        ("((2;%a%) > 1) + 1 > 0", "adds or compares the result of a comparison"),
        ("(2;%a%) & (2;%b%)", "something that is no comparison"),
        ("(" * 60 + "1", "brackets nested deeper than 50"),
        ("((2;%a%) > 1]", "is no formula"),
        (" | ".join(["((1;%a%) > 1 & (2;%a%) > 1)"] * 9), "more than 100 clauses"),
        ("1 > " + "1+" * 3000, "5,000 are read at most"),
    ],
)
def test_what_is_no_formula_is_said_in_a_line(formula: str, said: str) -> None:
    with pytest.raises(AtlasError, match=re.escape(said)) as error:
        parse_formula("here", formula)
    assert "\n" not in str(error.value)


GOOD = {"sentence_good": "The cats sleep.", "sentence_bad": "The cats sleeps."}


def gym(**changes: object) -> str:
    return json.dumps(GYM | changes)


def gym_formula(formula: str) -> str:
    return gym(predictions=[{"type": "formula", "formula": formula}])


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.jsonl", json.dumps(GOOD | {"sentence_bad": " "}), "line 1, sentence_bad is empty"),
        ("a.jsonl", json.dumps(GOOD) + "\n{'a'", "line 2: no JSON"),
        ("a.jsonl", json.dumps(GOOD | {"sentense": "x"}), "unknown field 'sentense'"),
        ("a.jsonl", json.dumps({"sentence_good": "x"}), "no field 'sentence_bad'"),
        ("a.jsonl", json.dumps(GOOD | {"sentence_bad": GOOD["sentence_good"]}), "both sentences of the pair are the same"),
        ("a.jsonl", json.dumps(GOOD | {"sentence_bad": 3}), "text is needed, and this is int"),
        ("a.jsonl", json.dumps(GOOD | {"sentence_bad": "x" * 10001}), "10,000 are read at most"),
        ("a.jsonl", "[]", "an object with named fields is needed"),
        ("a.jsonl", "\n".join([json.dumps(GOOD | {"pairID": 1})] * 2), "two items are called '1'"),
        ("a.jsonl", '{"sentence_good": "a", "sentence_good": "b"}', "'sentence_good'"),
        ("a.jsonl", '{"sentence_good": "\\ud800", "sentence_bad": "b"}', "surrogate"),
        ("a.jsonl", json.dumps(GOOD | {"UID": "\ud800"}), "line 1, UID: character 0 is half a surrogate pair"),
        ("a.jsonl", json.dumps(GOOD | {"pairID": "x\ud800"}), "line 1, pairID: character 1 is half a surrogate pair"),
        ("a.jsonl", json.dumps(GOOD | {"pairID": [1]}), "line 1, pairID: text is needed, and this is list"),
        ("a.jsonl", json.dumps(GOOD | {"UID": "x" * 10001}), "10,000 are read at most"),
        ("a.jsonl", "", "the suite is empty"),
        ("a.jsonl", json.dumps({"sentence": "no gap", "option1": "a", "option2": "b", "answer": "1"}), "one _ for the choice"),
        ("a.jsonl", json.dumps({"sentence": "a _ gap", "option1": "a", "option2": "b", "answer": "3"}), "must be 1 or 2"),
        ("a.json", "{", "no JSON"),
        ("a.json", json.dumps({"items": []}), "no field 'meta'"),
        ("a.json", gym(items=[]), "a list with something in it is needed"),
        ("a.json", gym(meta={"name": "x", "metric": "mean"}), "metric is 'mean'"),
        ("a.json", gym_formula("(4;%match%) > 0"), "names region 4 of match, which has no text"),
        ("a.json", gym_formula("(9;%match%) > 0"), "names region 9 of match"),
        ("a.json", gym_formula("(1;%other%) > 0"), "names condition 'other'; there are match, mismatch"),
        ("a.json", gym_formula("os.system('x')"), "cannot be read from character 0"),
        ("a.json", gym(items=[GYM["items"][0], GYM["items"][0]]), "two items are called '1'"),
        ("a.json", gym(items=[GYM["items"][0] | {"item_number": "\ud800"}]), "item_number: character 0 is half a surrogate pair"),
        ("a.json", "[" * 100_000, "JSON that cannot be read"),
        ("a.yaml", "tests: [", "no YAML"),
        ("a.yaml", "tests: &x [*x]", "an alias"),
        ("a.yaml", "tests: " + "[" * 40, "nested deeper than 16"),
        ("a.yaml", "- " * 4000, "nested deeper than 16"),
        ("a.yaml", "tests: 1\ntests: 2", "it has the name 'tests' twice"),
        ("a.yaml", "tests: !!python/object/apply:os.system [x]", "no YAML"),
        ("a.yaml", TEMPLATES.replace("delta: 0.05", "delta: 0x" + "f" * 400), "it has a number of 402 characters, and 30 are read at most"),
        ("a.yaml", "tests: 1" + ":59" * 300_000, "a number of 900,001 characters"),
        ("a.yaml", "tests: 1" + ":59" * 300_000 + ".5", "a number of 900,003 characters"),
        ("a.yaml", "[" * 900_000, "nested deeper than 16"),
        pytest.param("a.yaml", "[" + "{a: 1}," * 100_000 + "]", "an object with named fields is needed, and this is list", marks=pytest.mark.thorough),
        ("a.yaml", TEMPLATES.replace("kind: mft", "kind: mfd"), "kind 'mfd'; there are mft, inv, dir"),
        ("a.yaml", TEMPLATES.replace("{who} of the {place.name}", "{whom} of it"), "no slot {whom}; there are place.end, place.name, who"),
        ("a.yaml", TEMPLATES.replace("delta: 0.05", "delta: yes"), "delta is True"),
        ("a.yaml", TEMPLATES.replace("letters, case", "letters, cases"), "no perturbation 'cases'"),
        ("a.yaml", TEMPLATES.replace("do not speak", "run"), "the perturbation contraction finds nothing to edit"),
        ("a.yaml", TEMPLATES.replace("expectation: down", "expectation: lower"), "it must be 'up' or 'down'"),
        ("a.yaml", TEMPLATES.replace("The created {who}", "The first {who}"), "is not changed"),
        ("a.yaml", TEMPLATES.replace("expected:", "expect:"), "no field 'expected'"),
        ("a.yaml", TEMPLATES.replace("who: [people, union]", f"who: {list(map(str, range(9999)))}"), "can be filled in 19,998 ways"),
        ("a.txt", "x", "cannot read a.txt"),
    ],
)  # fmt: skip
def test_bad_input_is_said_in_a_line(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(AtlasError, match=re.escape(said)) as error:
        opened(tmp_path / name)
    assert "\n" not in str(error.value)


def test_what_is_read_takes_as_long_as_it_is_and_not_as_its_square() -> None:
    looked = Counter[str]()

    class Counted(str):
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            looked["name"] += 1
            return str.__eq__(self, other)

    class Seen(Item):
        def __getattribute__(self, name: str) -> object:
            looked[name] += 1
            return super().__getattribute__(name)

    n = 2000
    check_nodes("here", yaml.MappingNode("", [(yaml.ScalarNode("", Counted(i)), yaml.ScalarNode("", "")) for i in range(n)]))
    by_paradigm(Seen("pair", "s", "p", str(i), ()) for i in range(n))
    assert looked["name"] < 20 * n
    assert looked["kind"] < 20 * n


def test_no_more_items_than_memory_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.jsonl").write_text("\n".join([json.dumps(GOOD)] * 3))
    assert len(opened(tmp_path / "a.jsonl")) == 6
    monkeypatch.setattr("ingest.text.suites.MOST_ITEMS", 2)
    with pytest.raises(AtlasError, match="more than 2 items, and no more are read; divide it"):
        opened(tmp_path / "a.jsonl")


def test_files_that_are_missing_too_large_or_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AtlasError, match="there is no such file; give a file"):
        opened(tmp_path / "none.jsonl")
    (tmp_path / "a.jsonl").write_bytes(b'{"sentence_good": "\xff"}')
    with pytest.raises(AtlasError, match="byte 19 is not UTF-8"):
        opened(tmp_path / "a.jsonl")
    monkeypatch.setattr("ingest.text.suites.reading.MOST_BYTES", 5)
    with pytest.raises(AtlasError, match="5 are read at most; divide it"):
        opened(tmp_path / "a.jsonl")


def test_paradigms_stand_together_and_files_of_a_pattern_are_one_suite(tmp_path: Path) -> None:
    documents = opened(*written_suite(tmp_path), "agreement", n_items=2)
    order = [(d.metadata["suite"], d.metadata["paradigm"]) for d in documents]
    assert [order[i] for i in range(len(order)) if i == 0 or order[i] != order[i - 1]] == list(dict.fromkeys(order))
    assert {suite for suite, _ in order} == {"agreement", "suite", "gym", "manners"}
    assert [d.name for d in documents if d.metadata["paradigm"] == "two"] == ["two/0/good", "two/0/bad"]
    assert len([d for d in documents if d.metadata["kind"] == "pair"]) == 2 * (len(PAIRS) + 1 + 5 * 2)


def test_single_files_of_two_options_are_suites_of_their_own_names(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.jsonl").write_text(
            '{"sentence_good": "The cat sleeps.", "sentence_bad": "The cat sleep.", "UID": "of ' + name + '"}\n', encoding="utf-8"
        )
    paths = [str(tmp_path / f"{name}.jsonl") for name in ("one", "two")]
    assert {d.metadata["suite"] for d in opened(*paths)} == {"one", "two"}
    together = open_suites([tuple(paths)], n_items=1, seed=0).documents()
    assert {d.metadata["suite"] for d in together} == {tmp_path.name}


def test_files_that_a_shell_made_of_a_pattern_are_one_suite_and_those_of_two_patterns_two() -> None:
    assert group_suite_files(["a/1.jsonl", "agreement"], ["a/2.jsonl", "a/3.jsonl"]) == [("a/1.jsonl", "a/2.jsonl", "a/3.jsonl"), ("agreement",)]
    assert group_suite_files(["a/1.jsonl", "b/1.jsonl"], ["b/2.jsonl", "a/2.jsonl"]) == [("a/1.jsonl", "a/2.jsonl"), ("b/1.jsonl", "b/2.jsonl")]
    # of a pattern over folders, b/*/*.jsonl
    assert group_suite_files(["b/x/1.jsonl"], ["b/y/1.jsonl"]) == [("b/x/1.jsonl", "b/y/1.jsonl")]


def test_two_options_with_suites_of_one_name_are_refused(tmp_path: Path) -> None:
    paths = [tmp_path / folder / "pairs.jsonl" for folder in ("a", "b")]
    for i, path in enumerate(paths):
        path.parent.mkdir()
        path.write_text(f'{{"sentence_good": "The cat sleeps {i}.", "sentence_bad": "The cat sleep {i}.", "UID": "p{i}"}}\n', encoding="utf-8")
    with pytest.raises(AtlasError, match=f"two suites are called 'pairs', that of {paths[0]} and that of {paths[1]}: rename one"):
        opened(*paths)


TEXT = "The king does not like that old house."


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("letters", lambda text: sorted(text) == sorted(TEXT) and sum(a != b for a, b in zip(text, TEXT, strict=True)) == 2),
        ("case", lambda text: text.lower() == TEXT.lower() and sum(a != b for a, b in zip(text.split(), TEXT.split(), strict=True)) == 1),
        ("space", lambda text: text.count("  ") == 1 and text.replace("  ", " ") == TEXT),
        ("contraction", lambda text: text == "The king doesn't like that old house."),
        ("synonym", lambda text: text == "The ruler does not like that old house."),
    ],
)
def test_perturbations_edit_one_place_before_the_last_word(name: str, rule) -> None:
    found = {perturb_text(TEXT, name, {"king": "ruler", "house": "home"}, str(seed)) for seed in range(20)}
    assert perturb_text(TEXT, name, {"king": "ruler"}, "1") == perturb_text(TEXT, name, {"king": "ruler"}, "1")
    for text, end in filter(None, found):
        assert text != TEXT
        assert rule(text)
        assert TEXT.endswith(text[end:])
        assert text.endswith(" house.")
    assert len(found) == (1 if name in ("contraction", "synonym") else len(found)) and (name in ("contraction", "synonym") or len(found) > 2)


def test_sentences_begin_with_bos_else_with_the_end_of_text(byte_tokenizer: PreTrainedTokenizerFast, sentencepiece_tokenizer: PreTrainedTokenizerFast) -> None:
    assert bos_token(sentencepiece_tokenizer, "start") == sentencepiece_tokenizer.bos_token_id
    assert byte_tokenizer.bos_token_id is None
    assert bos_token(byte_tokenizer, "start") == byte_tokenizer.eos_token_id
    assert bos_token(byte_tokenizer, "auto") is None


def test_the_command_line_says_what_it_lacks(tmp_path: Path) -> None:
    said = CliRunner().invoke(command, [str(tmp_path / "a.duckdb"), "--suite", "agreement"])
    assert (said.exit_code, "--model is needed" in said.output) == (2, True)
    said = CliRunner().invoke(ingest, [str(tmp_path / "a.duckdb"), "--model", "m", "--suite", "agreement", "--corpus", "sotu"])
    assert (said.exit_code, "--suite and --corpus name two texts" in said.output) == (2, True)
