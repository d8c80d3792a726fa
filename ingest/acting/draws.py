"""Random draws for a position. They depend on the seed and the index alone, so that every arm gets the same draws, with or without a cache."""

from hashlib import sha256

import torch
from torch import Tensor

from schema.errors import AtlasError


def seeded_hash(seed: int, index: int) -> int:
    """Hash a seed and an index to an integer in [0, 2^63)."""
    return int.from_bytes(sha256(f"{seed}:{index}".encode()).digest()[:8], "big") >> 1


def noise(seed: int, index: int, width: int) -> Tensor:
    """Draw standard normal numbers, [width] float32, fixed by seed and index."""
    return torch.randn(width, generator=torch.Generator().manual_seed(seeded_hash(seed, index)))


def uniform(seed: int, index: int) -> float:
    """Draw a number in [0, 1)."""
    return (seeded_hash(seed, index) >> 10) / 2**53


def drawn_index(seed: int, index: int, n_positions: int) -> int:
    """Draw another index of a prompt of n_positions; never 0, since many models keep an unusual state there. Raises AtlasError if no other index exists."""
    is_among = 1 <= index < n_positions
    n_others = n_positions - 1 - is_among
    if n_others < 1:
        raise AtlasError(f"resample needs a position other than {index} and other than the first; a prompt of {n_positions} positions has none")
    drawn = 1 + seeded_hash(seed, index) % n_others
    return drawn + (is_among and drawn >= index)
