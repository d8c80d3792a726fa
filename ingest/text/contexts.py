"""Numbering of contexts: positions whose last tokens are the same get the same number."""

import numpy as np


def context_numbers(token_ids: np.ndarray, n: int) -> np.ndarray:
    """Hash the last n tokens up to each position of a sequence to 64 bits, or all tokens if there are fewer: [n_positions] int64.

    The hash is a sum over tokens of a hash of the token and its distance, so that a sequence takes n passes. Two contexts share a number with a chance of
    2^-64.
    """
    tokens = token_ids.astype(np.uint64)
    found = np.zeros(len(tokens), np.uint64)
    for back in range(min(n, len(tokens))):
        found[back:] += mix(tokens[: len(tokens) - back] + np.uint64((back + 1) << 32))
    return found.view(np.int64)


def mix(x: np.ndarray) -> np.ndarray:
    """Mix bits by the finaliser of splitmix64 (Steele et al. 2014): a bijection of 64-bit integers that looks random."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
