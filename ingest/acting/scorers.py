"""Classifiers that say how offensive a text is. Both read a text as a bag of words: they miss contempt, and are nearly a word filter turned round."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schema.errors import AtlasError

Scores = Callable[[Sequence[str]], NDArray[np.float64]]
"""Texts → one score each, in [0, 1]; a text is called offensive from 0.5 on."""

EXTRA = "pip install 'activation-atlas[scorers]'"


@dataclass(frozen=True)
class Scorer:
    name: str
    """Of the distribution."""
    version: str
    scores: Scores


def svm() -> Scores:
    """The probability that a calibrated linear support vector machine over 15,442 words gives. Its weights are a pickle, and so run as code does."""
    predict = package("profanity_check", "alt-profanity-check", EXTRA).predict_prob
    return lambda texts: np.asarray(predict(list(texts)), dtype=np.float64) if texts else np.empty(0)


def regression() -> Scores:
    """1 - the probability of neither hate speech nor offensive language that a logistic regression over words gives."""
    found = package("hatesonar", "hatesonar", f"{EXTRA} && pip install --no-deps hatesonar==0.1.0")
    try:
        ping = found.Sonar().ping
    except Exception as error:
        # onnxruntime has classes of its own
        if "locale" not in str(error):
            raise
        raise AtlasError("scorer 'hatesonar' needs the locale en_US.UTF-8: install it (Debian: package locales, then locale-gen en_US.UTF-8)") from None

    def neither(text: str) -> float:
        (p,) = (one["confidence"] for one in ping(text)["classes"] if one["class_name"] == "neither")
        return float(p)

    return lambda texts: np.array([1 - neither(text) for text in texts], dtype=np.float64)


SCORERS: dict[str, Callable[[], Scores]] = {"alt-profanity-check": svm, "hatesonar": regression}


def scorer(name: str) -> Scorer:
    """AtlasError for a name that there is not, and, saying what to install, for a package that is not here."""
    if name not in SCORERS:
        raise AtlasError(f"scorer '{name}' is unknown; give {' or '.join(SCORERS)}")
    scores = SCORERS[name]()
    return Scorer(name, version(name), scores)


def package(module: str, name: str, how: str) -> Any:
    """The module of a distribution. AtlasError, saying how to install it, where it is not."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise AtlasError(f"'{name}' is not installed ({error.name} is missing); run `{how}`") from None
