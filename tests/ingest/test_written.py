"""What a head adds to a logit by who wrote what it moves, against float64 weights that are found by their names."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ingest.model.readers import LOGIT, Reader
from ingest.model.virtual_heads import logit_by_writer
from tests.exact.heads_reference import Heads
from tests.ingest.attention_oracle import eager_model
from tests.ingest.parts_oracle import Oracle
from tests.ingest.tiny_models import FAMILIES, token_batch

torch.set_num_threads(1)

TOKENS = token_batch(1, 9, seed=2)[0]


@pytest.mark.parametrize("model_type", FAMILIES)
def test_a_heads_logit_is_the_sum_of_what_it_moves_of_each_that_wrote_before(model_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # sources in more than one chunk
    monkeypatch.setattr("ingest.model.virtual_heads.AT_ONCE", 4)
    model = eager_model(model_type)
    oracle, heads = Oracle(model), Heads(model.hf)
    taken = oracle.take(TOKENS)
    word, scale = int(model.lens(taken.last[-1:].float()).argmax()), oracle.scale(taken.last[-1:])
    for layer, head in ((layer, head) for layer in (0, 1) for head in range(model.n_heads)):
        earlier = {key: z.numpy() for key, z in taken.parts.items() if key[1] is None or key[1] < layer}
        (weight, bias), norm = heads.qkv(layer)[2], heads.before(layer)
        own = head * len(weight) // heads.n_heads
        values, constant, scales = weight[own], bias[own], np.ones(len(TOKENS))
        if norm is not None:
            values, constant = weight[own] @ norm.folded, bias[own] + weight[own] @ norm.bias
            scales = np.asarray(norm.scale(sum(earlier.values()))).reshape(-1)
        pattern = taken.weights[layer][-1, head].numpy()
        projection, gathered = oracle.output(layer), torch.einsum("hj,jhd->hd", taken.weights[layer][-1], taken.values[layer]).flatten()
        after = oracle.after(layer, "post_attention_layernorm", projection(gathered))

        def logit(value: np.ndarray, head: int = head, projection: nn.Module = projection, gathered: Tensor = gathered, after: Tensor = after) -> float:
            alone = torch.zeros_like(gathered).unflatten(0, (model.n_heads, -1))
            alone[head] = torch.from_numpy(value)
            z = (projection(alone.flatten()) - projection(torch.zeros_like(gathered))) * after
            return float(oracle.read(z[None], scale)[0, word])

        wanted = {key: logit(values @ ((pattern / scales) @ z)) for key, z in earlier.items()} | {("constant", None, None): logit(constant)}
        seen = logit_by_writer(model, Reader(layer, head, LOGIT), TOKENS)
        found = {(part.kind, part.layer, part.head): part.amount for part in seen.parts}
        assert len(found) == len(seen.parts)
        size = max(map(abs, wanted.values()))
        assert found == {key: pytest.approx(amount, rel=3e-5, abs=3e-5 * size) for key, amount in wanted.items()}, (layer, head)
        whole = float(oracle.read(taken.parts["head", layer, head][-1:], scale)[0, word])
        assert seen.total == pytest.approx(whole, rel=3e-5, abs=3e-5 * size)
        assert abs(seen.residual) < 3e-5 * size
