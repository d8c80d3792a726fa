"""Interpolated modified Kneser-Ney by the letter (Chen and Goodman 1998), with dictionaries and recursion. Nothing of `ingest` is used."""

from collections import Counter, defaultdict
from collections.abc import Sequence

PAD = "<start>"


class KneserNey:
    """Of one order. discount: one for all counts, None for three an order told by how often counts are."""

    def __init__(self, texts: Sequence[Sequence[int]], order: int, vocabulary: int, discount: float | None = None) -> None:
        self.order, self.vocabulary = order, vocabulary
        self.counts: dict[int, Counter] = {order: Counter()}
        for text in texts:
            padded = [PAD] * (order - 1) + list(text)
            for i in range(order - 1, len(padded)):
                self.counts[order][tuple(padded[i - order + 1 : i + 1])] += 1
        for n in range(order - 1, 0, -1):
            left = defaultdict(set)
            for text in texts:
                padded = [PAD] * n + list(text)
                for i in range(n, len(padded)):
                    left[tuple(padded[i - n + 1 : i + 1])].add(padded[i - n])
            self.counts[n] = Counter({gram: len(tokens) for gram, tokens in left.items()})
        self.discounts = {n: self.told(n) if discount is None else (discount,) * 3 for n in self.counts}
        self.followers: dict[int, dict[tuple, list[int]]] = {}
        for n, counts in self.counts.items():
            self.followers[n] = defaultdict(list)
            for gram, c in counts.items():
                self.followers[n][gram[:-1]].append(c)

    def told(self, n: int) -> tuple[float, float, float]:
        n1, n2, n3, n4 = (sum(c == i for c in self.counts[n].values()) for i in (1, 2, 3, 4))
        if 0 in (n1, n2, n3, n4):
            return 0.5, 1.0, 1.5
        y = n1 / (n1 + 2 * n2)
        found = 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3
        return found if all(0 <= d <= i for i, d in enumerate(found, start=1)) else (0.5, 1.0, 1.5)

    def discount(self, n: int, c: int) -> float:
        return self.discounts[n][min(c, 3) - 1]

    def probability(self, before: Sequence[int], token: int) -> float:
        """before: all tokens of the document so far."""
        context = tuple(([PAD] * self.order + list(before))[-(self.order - 1) :])
        return self.recursive(self.order, context, token)

    def recursive(self, n: int, context: tuple, token: int) -> float:
        if n == 0:
            return 1 / self.vocabulary
        below = self.recursive(n - 1, context[1:], token)
        seen = self.followers[n].get(context)
        if seen is None:
            return below
        own = self.counts[n].get((*context, token), 0)
        remains = sum(self.discount(n, c) for c in seen) / sum(seen)
        return (own - self.discount(n, own) if own else 0) / sum(seen) + remains * below

    def matched(self, before: Sequence[int]) -> int:
        """Order of the longest n-gram whose context is known."""
        context = tuple(([PAD] * self.order + list(before))[-(self.order - 1) :])
        return next(n for n in range(self.order, 0, -1) if n == 1 or context[len(context) - n + 1 :] in self.followers[n])
