"""What says how offensive a text is. All read it as a bag of words: they miss contempt, and are nearly a word filter turned round."""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schema.errors import AtlasError

Scores = Callable[[Sequence[str]], NDArray[np.float64]]
"""Texts → one score each, in [0, 1]; a text is called offensive from 0.5 on."""

UNWANTED = "unwanted-words"

EXTRA = "pip install 'activation-atlas[scorers]'"


@dataclass(frozen=True)
class Scorer:
    name: str
    """Of the distribution, or UNWANTED."""
    version: str
    """Of UNWANTED the beginning of the SHA-256 of its words."""
    scores: Scores


def svm() -> Scores:
    """Load a linear support vector machine over 15,442 words, calibrated to give probabilities. Its weights are a pickle, and so run as code does."""
    predict = package("profanity_check", "alt-profanity-check", EXTRA).predict_prob
    return lambda texts: np.asarray(predict(list(texts)), dtype=np.float64) if texts else np.empty(0)


def regression() -> Scores:
    """Load the scorer that gives 1 - the probability of neither hate speech nor offensive language by a logistic regression over words."""
    found = package("hatesonar", "hatesonar", f"{EXTRA} && pip install --no-deps hatesonar==0.1.0")
    try:
        ping = found.Sonar().ping
    except Exception as error:
        # onnxruntime has classes of its own
        if "locale" not in str(error):
            raise
        raise AtlasError("scorer 'hatesonar' needs the locale en_US.UTF-8: install it (Debian: package locales, then locale-gen en_US.UTF-8)") from None

    def neither_prob(text: str) -> float:
        (p,) = (one["confidence"] for one in ping(text)["classes"] if one["class_name"] == "neither")
        return float(p)

    return lambda texts: np.array([1 - neither_prob(text) for text in texts], dtype=np.float64)


SCORERS: dict[str, Callable[[], Scores]] = {"alt-profanity-check": svm, "hatesonar": regression}


def word_list_scores(words: Collection[str]) -> Scores:
    """Build the scorer that gives 1 to a text that holds one of the words, between characters that are no word characters and whatever the case; else 0."""
    found = re.compile(rf"(?<!\w)(?:{'|'.join(re.escape(word) for word in sorted(words))})(?!\w)", re.IGNORECASE)
    return lambda texts: np.array([found.search(text) is not None for text in texts], dtype=np.float64)


def scorer(name: str, words: Collection[str]) -> Scorer:
    """Build the scorer of that name. words: those that UNWANTED looks for.

    Raises AtlasError for a name that there is not and, saying what to install, for a package that is not here.
    """
    if name == UNWANTED:
        return Scorer(name, sha256("\n".join(sorted(words)).encode()).hexdigest()[:12], word_list_scores(words))
    if name not in SCORERS:
        raise AtlasError(f"scorer '{name}' is unknown; give {', '.join((*SCORERS, UNWANTED))}")
    scores = SCORERS[name]()
    return Scorer(name, version(name), scores)


def package(module: str, name: str, how: str) -> Any:
    """Import the module of a distribution. AtlasError, saying how to install it, where it is not."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise AtlasError(f"'{name}' is not installed ({error.name} is missing); run `{how}`") from None
