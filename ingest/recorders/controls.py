"""What is set beside the values: the token that follows each key's top trigger, and vectors that are no values.

Sources: Geva et al. 2021, section 4 (figure 5); Geva et al. 2022, section 4 (baselines of the concept counts).
"""

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ingest.model.models import Model
from ingest.model.ranking import rank_of, top_k
from ingest.recorders.values import CHUNK, N_TOKENS


def next_token_rows(model: Model, layer: int, corpus_id: int, neurons: np.ndarray, token_ids: np.ndarray) -> pa.Table:
    """Rows of `next_token_rank`: each neuron's own token in softmax(E·value), raw projection. neurons, token_ids: [n]."""
    values, tokens = model.values(layer), torch.from_numpy(token_ids.astype(np.int64)).to(model.device)
    ranks, probs = [np.empty(0, np.int32)], [np.empty(0, np.float32)]
    for start in range(0, len(neurons), CHUNK):
        part = slice(start, start + CHUNK)
        scores = model.unembed(values[torch.from_numpy(neurons[part].astype(np.int64)).to(model.device)])
        ranks.append(rank_of(scores, tokens[part]).cpu().numpy().astype(np.int32))
        own = scores.gather(1, tokens[part, None])[:, 0]
        probs.append((own - scores.logsumexp(1)).exp().cpu().numpy())
    return pa.table(
        {
            "corpus_id": np.full(len(neurons), corpus_id, np.int32),
            "layer": np.full(len(neurons), layer, np.int16),
            "neuron": neurons.astype(np.int32),
            "token_id": token_ids.astype(np.int32),
            "value_rank": np.concatenate(ranks),
            "value_prob": np.concatenate(probs),
        }
    )


def random_vectors(values: Tensor, layer: int, seed: int, n: int) -> Tensor:
    """n vectors [n, d_model] whose every dimension is normal with the mean and standard deviation (divided by their number) of the layer's values."""
    generator = np.random.default_rng([seed % 2**64, layer])
    normal = torch.from_numpy(generator.standard_normal((n, values.shape[1]))).to(values)
    return values.mean(0) + values.std(0, correction=0) * normal


def control_rows(model: Model, layer: int, control: str, items: np.ndarray, vectors: Tensor) -> pa.Table:
    """Rows of `control_token`: the N_TOKENS tokens with the largest raw scores of each vector [n, d_model], numbered by items [n]."""
    scores, tokens = top_k(model.unembed(vectors), N_TOKENS)
    n, k = tokens.shape
    return pa.table(
        {
            "control": pa.repeat(control, n * k),
            "layer": np.full(n * k, layer, np.int16),
            "item": np.repeat(items.astype(np.int64), k),
            "rank": np.tile(np.arange(1, k + 1, dtype=np.int16), n),
            "token_id": tokens.cpu().numpy().astype(np.int32).ravel(),
            "score": scores.cpu().numpy().ravel(),
        }
    )
