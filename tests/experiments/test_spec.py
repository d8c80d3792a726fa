"""Experiments as files: what is read of them, what is refused, and that what is written is read as the same."""

import inspect
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.acting.facts import FILE, read_facts
from ingest.acting.knockout import knock_out
from ingest.experiments.spec import of_toml, read_file, require_shallow, spec_of, to_toml
from schema.errors import AtlasError

SMALL = {"kind": "tracing", "title": "a", "prompts": [{"text": "the cat", "subject": "cat", "answer": " sat"}]}

any_text = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20)


@pytest.mark.thorough
@settings(deadline=None, max_examples=50)
@given(any_text, any_text, st.lists(any_text, min_size=1, max_size=3), st.integers(0, 2**62), st.floats(0, 1e300), st.booleans())
def test_what_is_written_is_read_as_the_same(title: str, text: str, words: list[str], seed: int, deviations: float, has_cluster: bool) -> None:
    prompts = [{"text": text, "subject": word, "answer": word} | ({"cluster": title} if has_cluster else {}) for word in words]
    own = {"deviations": deviations, "sites": ["ffn_out"], "draws": 3}
    spec = spec_of({"kind": "tracing", "title": title, "seed": seed, "settings": own, "prompts": prompts})
    assert of_toml(to_toml(spec).encode()) == spec
    assert (spec.seed, spec.settings.deviations, spec.settings.sites, spec.settings.every) == (seed, deviations, ("ffn_out",), 1)
    assert [one.subject for one in spec.prompts] == words


def test_a_whole_file() -> None:
    spec = of_toml(
        b"""# a.b.c.d.e.f.g.h.i.j [[[[[[[[[[
kind = "patching"
title = "Rome [[[[[[[[[[ for a.b.c.d.e.f.g.h.i.j"

[settings]
window = 3
directions = ["noising"]

[[prompts]]
text = "in Paris, the capital of"
corrupted = "in Rome, the capital of"
answer = " France"
foil = " Italy"
"""
    )
    assert (spec.kind, spec.seed, spec.settings.window, spec.settings.directions) == ("patching", 0, 3, ("noising",))
    assert (spec.prompts[0].corrupted, spec.prompts[0].foil, spec.prompts[0].cluster) == ("in Rome, the capital of", " Italy", None)


def test_facts_stand_for_the_prompts_that_are_shipped() -> None:
    spec = spec_of(SMALL | {"prompts": "facts"})
    assert [(one.text, one.subject, one.answer, one.cluster) for one in spec.prompts] == [
        (fact.prompt, fact.subject, fact.answer, fact.cluster) for fact in read_facts(FILE.read_text(encoding="utf-8"))
    ]
    with pytest.raises(AtlasError, match='prompts is "facts"; it must be a list of one prompt or more$'):
        spec_of({"kind": "saliency", "title": "a", "prompts": "facts"})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "tracin"}, "kind 'tracin' is unknown; there are knockout, patching, "),
        ({"titel": "b"}, '"titel" is unknown; an experiment has kind, title, seed, settings, prompts'),
        ({"seed": -1}, "the experiment: seed is -1; it must be at least 0"),
        ({"seed": True}, "the experiment: seed is true; it must be a whole number"),
        ({"title": 3}, "the experiment: title is 3; it must be a text"),
        ({"settings": {"layers": 3}}, 'settings: "layers" is unknown; there are sites, window, every, deviations, draws'),
        ({"settings": 3}, "settings: 3 was given; it must be a table with sites, "),
        ({"settings": {"draws": 2.5}}, "settings: draws is 2.5; it must be a whole number"),
        ({"settings": {"draws": 0}}, "settings: draws is 0; it must be at least 1 and at most 1,000"),
        ({"settings": {"deviations": "3"}}, 'settings: deviations is "3"; it must be a finite number'),
        ({"settings": {"deviations": float("inf")}}, "settings: deviations is Infinity; it must be a finite number"),
        ({"settings": {"sites": "resid_post"}}, 'settings: sites is "resid_post"; it must be a list, each item a text'),
        ({"settings": {"sites": ["resid"]}}, 'settings: sites is "resid"; it must be one of resid_post, attn_out, ffn_out'),
        ({"prompts": []}, "prompts is \\[\\]; it must be a list of one prompt or more, or 'facts' for those that come with the atlas"),
        ({"prompts": "fact"}, 'prompts is "fact"; it must be a list of one'),
        ({"prompts": [{"text": "a"}]}, "prompt 0: subject is missing: part of the text, at its first occurrence"),
        ({"prompts": [{"text": "a", "subject": "a", "anwser": "b"}]}, 'prompt 0: "anwser" is unknown; there are text, subject, answer, cluster'),
        ({"prompts": ["a"]}, 'prompt 0: "a" was given; it must be a table with text, subject, answer, cluster'),
        ({"prompts": [{"text": "a" * 70_000, "subject": "a"}]}, "prompt 0: text has 70,000 characters; at most 65,536 are read"),
        ({"prompts": [{"text": "a", "subject": "\ud83d"}]}, "prompt 0: subject: character 0 is half a surrogate pair"),
        ({"prompts": [{"text": "a", "subject": "a"}] * 5000}, "5,000 prompts were given; at most 4,096 are read"),
        ({"settings": {"sites": ["resid_post", "ffn_out", "resid_post"]}}, 'settings: sites has "resid_post" twice: name each once'),
        ({"settings": {"sites": ["resid_post"] * 5000}}, "settings: sites has 5,000 items; at most 4,096 are read"),
    ],
)
def test_what_is_not_there_is_refused_in_one_line(changes: dict, message: str) -> None:
    with pytest.raises(AtlasError, match=message) as refused:
        spec_of(SMALL | changes)
    assert "\n" not in str(refused.value)


SUPPRESSION = {"kind": "suppression", "title": "a", "prompts": [{"text": "a", "cluster": "b"}]}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"draws": 10**15}, "draws is 1000000000000000; it must be at least 5 and at most 100"),
        ({"samples": 10**15}, "samples is 1000000000000000; it must be at least 1 and at most 100"),
        ({"values": 10**15}, "at least 1 and at most 1,000"),
        ({"new_tokens": 10**15}, "at least 1 and at most 256"),
        ({"strengths": [0.5, 0.5]}, "strengths has 0.5 twice: name each once"),
        ({"strengths": [i / 64 for i in range(17)]}, "strengths has 17 items; at most 16 are computed"),
        ({"scorers": ["hatesonar", "hatesonar"]}, 'scorers has "hatesonar" twice'),
    ],
)
def test_what_is_computed_for_each_is_bounded_before_it_is_made(settings: dict, message: str) -> None:
    with pytest.raises(AtlasError, match=message):
        spec_of(SUPPRESSION | {"settings": settings})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"kind = ", "it is not valid TOML: "),
        (b'kind = "\xff"', "it must be TOML in UTF-8, but byte 8 is not UTF-8"),
        (b"a = " + b"[" * 50_000, "it is nested deeper than 8, which no experiment needs"),
        (b"a = " + b"9" * 5_000, "it is not valid TOML: "),
        (b"kind = 1979-05-27", "the experiment: title is missing: the experiment's title"),
        (b'kind = 1979-05-27\ntitle = "a"', 'the experiment: kind is "1979-05-27"; it must be a text'),
        (b"#" * (256 * 1024 + 1), "it has more than 262,144 bytes, the most that are read"),
        # tomllib takes minutes for it
        (b"a" + b".a" * 100_000 + b" = 1", "it is nested deeper than 8"),
        (b"[" + b'"a" . ' * 100 + b"a]", "it is nested deeper than 8"),
        (b'a = """\n\\"""[[[[[[[[[[" # """\n' + b"[a.b.c.d.e.f.g.h.i]", "it is nested deeper than 8"),
    ],
)
def test_a_strange_file_is_refused_with_its_name(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "strange.toml"
    path.write_bytes(data)
    with pytest.raises(AtlasError, match=f"strange.toml: {message}") as refused:
        read_file(path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("pattern", ["a", "9", "a.", '"\\\\', '\\\\"', "'a", "a ", '"""\\\\', "a.a.a.a.a.a.a "])
def test_what_is_looked_at_before_parsing_is_looked_at_once(pattern: str) -> None:
    """Four times as much took sixteen times as long: minutes for the largest file."""
    text = "x = " + pattern * (256_000 // len(pattern))
    began = time.process_time()
    with suppress(AtlasError):
        require_shallow(text)
    assert time.process_time() - began < 5


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(AtlasError, match="nothing.toml cannot be read: No such file or directory"):
        read_file(tmp_path / "nothing.toml")


def test_windows_are_those_of_the_papers_where_none_is_said() -> None:
    """Ten layers in tracing (Meng et al. 2022), nine in knockout (Geva et al. 2023)."""
    assert [spec_of(SMALL | {"kind": kind}).settings.window for kind in ("tracing", "knockout")] == [10, 9]
    assert inspect.signature(knock_out).parameters["window"].default == 9
