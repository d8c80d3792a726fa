"""Counting models: baselines for the reference model's perplexity."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

DISCOUNT = 0.75


def unigram_loss(training: Iterable[Sequence[int]], held_out: Iterable[Sequence[int]], vocabulary: int) -> float:
    """Compute the mean negative log-likelihood of the held-out tokens under add-one counts of the training tokens, nats per token."""
    counts = Counter(t for text in training for t in text)
    total = counts.total() + vocabulary
    held = [t for text in held_out for t in text]
    return -sum(math.log((counts[t] + 1) / total) for t in held) / len(held)


class Trigram:
    """Interpolated Kneser-Ney with one absolute discount (Chen and Goodman 1998, section 2.7), over token ids below `vocabulary`.

    Two `bos` stand before every text, so that its first tokens have a context too.
    """

    def __init__(self, texts: Iterable[Sequence[int]], bos: int, vocabulary: int) -> None:
        self.bos = bos
        self.trigrams: Counter[tuple[int, int, int]] = Counter()
        for text in texts:
            padded = [bos, bos, *text]
            self.trigrams.update(zip(padded, padded[1:], padded[2:], strict=False))
        # what precedes counts in the lower orders, not how often: a word seen after one context alone says little elsewhere
        self.bigrams = Counter((v, w) for _, v, w in self.trigrams)
        self.unigrams = Counter(w for _, w in self.bigrams)
        self.after_two = Counter[tuple[int, int]]()
        for (u, v, _), n in self.trigrams.items():
            self.after_two[u, v] += n
        self.kinds_after_two = Counter((u, v) for u, v, _ in self.trigrams)
        self.after_one = Counter[int]()
        for (v, _), n in self.bigrams.items():
            self.after_one[v] += n
        self.kinds_after_one = Counter(v for v, _ in self.bigrams)
        self.n_bigrams, self.n_words = len(self.bigrams), len(self.unigrams)
        self.vocabulary = vocabulary

    def probability(self, u: int, v: int, w: int) -> float:
        """Compute p(w | u, v), in (0, 1]."""
        p = interpolate_probability(self.unigrams[w], self.n_bigrams, self.n_words, 1 / self.vocabulary)
        p = interpolate_probability(self.bigrams[v, w], self.after_one[v], self.kinds_after_one[v], p)
        return interpolate_probability(self.trigrams[u, v, w], self.after_two[u, v], self.kinds_after_two[u, v], p)

    def loss(self, texts: Iterable[Sequence[int]]) -> float:
        """Compute the mean negative log-likelihood, nats per token."""
        total, n = 0.0, 0
        for text in texts:
            padded = [self.bos, self.bos, *text]
            total -= sum(math.log(self.probability(*place)) for place in zip(padded, padded[1:], padded[2:], strict=False))
            n += len(text)
        return total / n


def interpolate_probability(count: int, total: int, kinds: int, below: float) -> float:
    """Compute a probability from a discounted count; the discounted share is multiplied by `below`, the probability of the lower order."""
    if total == 0:
        return below
    return max(count - DISCOUNT, 0) / total + DISCOUNT * kinds / total * below
