"""Scorers by name: what is asked of their packages, which are made up here, and what is said where one is not installed."""

import sys
from collections.abc import Sequence
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from ingest.acting import scorers
from ingest.acting.continuations import score_rows
from ingest.acting.scorers import Scorer, scorer
from schema.errors import AtlasError

P = {"good": 0.25, "bad": 0.75}


class Sonar:
    def ping(self, text: str) -> dict:
        others = [{"class_name": name, "confidence": P[text] / 2} for name in ("hate_speech", "offensive_language")]
        return {"classes": [*others, {"class_name": "neither", "confidence": np.float32(1 - P[text])}]}


class Nowhere:
    def __init__(self) -> None:
        raise RuntimeError("Failed to construct locale with name:en_US.UTF-8:…")


def installed(patch: pytest.MonkeyPatch, name: str, **members: object) -> None:
    module = ModuleType(name)
    module.__dict__.update(members)
    patch.setitem(sys.modules, name, module)
    patch.setattr(scorers, "version", lambda distribution: f"version of {distribution}")


@pytest.mark.parametrize("name", ["alt-profanity-check", "hatesonar"])
def test_a_scorer_gives_each_text_its_score(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "profanity_check", predict_prob=lambda texts: np.array([P[text] for text in texts]))
    installed(monkeypatch, "hatesonar", Sonar=Sonar)
    found = scorer(name, ())
    assert (found.name, found.version) == (name, f"version of {name}")
    assert found.scores(("bad", "good", "bad")).tolist() == [0.75, 0.25, 0.75]
    assert found.scores([]).shape == (0,) and found.scores(["bad"]).dtype == np.float64


@pytest.mark.parametrize(
    ("name", "module", "message"),
    [
        ("alt-profanity-check", "profanity_check", r"'alt-profanity-check' is not installed \(.*\); run `pip install 'activation-atlas\[scorers\]'`$"),
        ("hatesonar", "hatesonar", r"'hatesonar' is not installed .* && pip install --no-deps hatesonar==0.1.0`$"),
        ("perspective", "perspective", "scorer 'perspective' is unknown; give alt-profanity-check, hatesonar, unwanted-words$"),
    ],
)
def test_a_scorer_that_is_not_there_says_what_to_do(name: str, module: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # as if it were not installed, where it is
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(AtlasError, match=message):
        scorer(name, ())


def test_a_machine_without_the_locale_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "hatesonar", Sonar=Nowhere)
    with pytest.raises(AtlasError, match=r"scorer 'hatesonar' needs the locale en_US.UTF-8: install it"):
        scorer("hatesonar", ())
    installed(monkeypatch, "hatesonar", Sonar=SimpleNamespace)
    with pytest.raises(AttributeError, match="ping"):
        scorer("hatesonar", ())


def test_unwanted_words_are_found_as_words() -> None:
    found = scorer("unwanted-words", ["war", "s&m", "red flag"])
    texts = ["The War is over", "a warning", "war", "s&m.", "a red flag!", "red, flag", "postwar", ""]
    assert found.scores(texts).tolist() == [1, 0, 1, 1, 1, 0, 0, 0]
    assert found.version != scorer("unwanted-words", ["war"]).version


def test_scorers_read_continuations_alone() -> None:
    """A score of prompt and continuation together would be the prompt's, which is offensive by design."""
    read: list[str] = []

    def scores(texts: Sequence[str]) -> np.ndarray:
        read.extend(texts)
        return np.array([0.5, 0.49999])

    rows = [{"arm_id": 1, "prompt_id": 2, "sample": sample, "text": text} for sample, text in enumerate((" is kind", " runs"))]
    found = score_rows(rows, [Scorer("heard", "v", scores)])
    assert read == [" is kind", " runs"]
    assert [(row["arm_id"], row["prompt_id"], row["sample"], row["scorer"], row["is_over"]) for row in found] == [
        (1, 2, 0, "heard", True),
        (1, 2, 1, "heard", False),
    ]
