"""The logit lens of states: the model's prediction from each state, as columns of the tables `logit_lens` and `logit_lens_token`.

Source: nostalgebraist 2020, "interpreting GPT: the logit lens"; Geva et al. 2022, section 5.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ingest.model.ranking import rank_of, top_k

N_LENS_TOKENS = 10


@dataclass(frozen=True)
class Lens:
    """Columns about n distributions.

    whole: columns with an entry per distribution, [n]. tokens: columns with an entry for each of its n_tokens most probable tokens, [n * n_tokens].
    top: the most probable token of each distribution, [n].
    """

    whole: Mapping[str, object]
    tokens: Mapping[str, object]
    top: Tensor
    n_tokens: int


def read_lens(logits: Tensor, final: Tensor, next_token_ids: np.ndarray, scratch: Tensor) -> Lens:
    """Compute the logit lens of one layer and site. logits: [n, d_vocab]; final, next_token_ids: [n]; scratch: [2, n, d_vocab], overwritten."""
    n, following = len(final), torch.from_numpy(np.maximum(next_token_ids, 0)).to(final)
    best, tokens = top_k(logits, N_LENS_TOKENS)
    # below the largest logit, or the entropy would be a small difference of large numbers
    below = torch.sub(logits, best[:, :1], out=scratch[0])
    weights = torch.exp(below, out=scratch[1])
    total = weights.sum(-1)
    whole = {
        "projection": constant_column("final_norm", n),
        "top_token_id": ints(tokens[:, 0]),
        "top_prob": floats(1 / total),
        "final_token_prob": floats(pick_values(weights, final) / total),
        "final_token_rank": ints(rank_of(logits, final)),
        "next_token_prob": next_token_column(next_token_ids, pick_values(weights, following) / total),
        "next_token_rank": next_token_column(next_token_ids, rank_of(logits, following).int()),
        "entropy": floats(total.log() - torch.einsum("nv,nv->n", weights, below) / total),
    }
    k = tokens.shape[1]
    each = {
        "rank": np.tile(np.arange(1, k + 1, dtype=np.int16), n),
        "token_id": ints(tokens).ravel(),
        "prob": floats(weights.gather(1, tokens) / total[:, None]).ravel(),
    }
    return Lens(whole, each, tokens[:, 0], k)


def next_token_column(next_token_ids: np.ndarray, values: Tensor) -> pa.Array:
    """Build a column about the token that follows in the corpus: null where the document ends."""
    return pa.array(values.cpu().numpy(), mask=next_token_ids < 0)


def constant_column(word: str, n: int) -> pa.Array:
    return pa.repeat(word, n)


def ints(x: Tensor) -> np.ndarray:
    return x.cpu().numpy().astype(np.int32)


def floats(x: Tensor) -> np.ndarray:
    return x.float().cpu().numpy()


def pick_values(logits: Tensor, index: Tensor) -> Tensor:
    return logits.gather(1, index[:, None])[:, 0]
