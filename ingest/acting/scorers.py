"""Scorers of how offensive a text is. All treat a text as a bag of words: they miss contempt, and measure little more than which words a text contains."""

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
"""Texts → one score each, in [0, 1]; a text with a score of 0.5 or more counts as offensive."""

UNWANTED = "unwanted-words"

EXTRA = "pip install 'activation-atlas[scorers]'"


@dataclass(frozen=True)
class Scorer:
    name: str
    """Name of the Python distribution, or UNWANTED."""
    version: str
    """Version of the distribution; for UNWANTED, the first digits of the SHA-256 of the words."""
    scores: Scores


def svm() -> Scores:
    """Load a linear support vector machine over 15,442 words, calibrated to give probabilities. Its weights are a pickle, so that loading them runs code."""
    predict = package("profanity_check", "alt-profanity-check", EXTRA).predict_prob
    return lambda texts: np.asarray(predict(list(texts)), dtype=np.float64) if texts else np.empty(0)


def regression() -> Scores:
    """Load a logistic regression over words. Its score is 1 - the probability that a text is neither hate speech nor offensive language."""
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
    """Build the scorer that gives 1 to a text that contains one of the words as a whole word, in upper or lower case, and 0 to any other text."""
    found = re.compile(rf"(?<!\w)(?:{'|'.join(re.escape(word) for word in sorted(words))})(?!\w)", re.IGNORECASE)
    return lambda texts: np.array([found.search(text) is not None for text in texts], dtype=np.float64)


def scorer(name: str, words: Collection[str]) -> Scorer:
    """Build the scorer with this name. words: the words that the scorer UNWANTED looks for.

    Raises AtlasError for an unknown name, and for a package that is not installed; the message then says what to install.
    """
    if name == UNWANTED:
        return Scorer(name, sha256("\n".join(sorted(words)).encode()).hexdigest()[:12], word_list_scores(words))
    if name not in SCORERS:
        raise AtlasError(f"scorer '{name}' is unknown; give {', '.join((*SCORERS, UNWANTED))}")
    scores = SCORERS[name]()
    return Scorer(name, version(name), scores)


def package(module: str, name: str, how: str) -> Any:
    """Import a module of a distribution. Raises AtlasError, with the command `how` that installs the distribution, if the module is not installed."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise AtlasError(f"'{name}' is not installed ({error.name} is missing); run `{how}`") from None
