"""Losses of paths through few heads by the letter: a float64 copy of the model runs again and again, and hooks put into the output projection what heads
gathered the run before, with the attention weights of the first run (Elhage et al. 2021, term importance). Nothing of `ingest` but the model is used."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from ingest.model.models import Model
from tests.ingest.attention_oracle import ATTENTION
from tests.ingest.parts_oracle import DOWN, Oracle

Gathered = list[Tensor]
"""Input of each layer's output projection."""


def silenced(model: Model) -> Model:
    """The same with FFNs that write nothing."""
    for name, module in model.hf.named_modules():
        if name.rpartition(".")[2] in DOWN and not any(part in ATTENTION for part in name.split(".")):
            module.weight.zero_()
            if module.bias is not None:
                module.bias.zero_()
    return model


class Runs(Oracle):
    def __init__(self, model: Model, token_ids: Tensor) -> None:
        super().__init__(model)
        if self.config._attn_implementation != "eager":
            self.hf.set_attn_implementation("eager")
        self.ids = token_ids[None]
        with torch.no_grad():
            out = self.hf(self.ids, use_cache=False, output_attentions=True)
        self.patterns, self.whole = [x[0].double() for x in out.attentions], self.loss(out.logits[0])

    def loss(self, logits: Tensor) -> float:
        return -float(logits.log_softmax(-1)[:-1].gather(1, self.ids[0, 1:, None]).sum())

    def again(self, before: Gathered | None) -> tuple[float, Gathered]:
        """The loss where each layer's projection is given `before`, nothing for None, and what its heads gathered meanwhile."""
        gathered, found, handles = [], {}, []
        for layer in range(len(self.blocks)):
            ((_, module),) = self.value_modules(layer)

            def keep(_: nn.Module, args: tuple, output: Tensor, layer: int = layer) -> None:
                found[layer] = self.values(output.reshape(self.ids.shape[1], -1), self.config.num_attention_heads)

            def put(_: nn.Module, args: tuple, layer: int = layer) -> tuple[Tensor]:
                gathered.append(torch.einsum("hst,thd->shd", self.patterns[layer], found[layer]).reshape(args[0].shape))
                return (torch.zeros_like(args[0]) if before is None else before[layer],)

            handles += [module.register_forward_hook(keep), self.output(layer).register_forward_pre_hook(put)]
        with torch.no_grad():
            loss = self.loss(self.hf(self.ids, use_cache=False).logits[0])
        for handle in handles:
            handle.remove()
        return loss, gathered

    def losses(self) -> dict[tuple, float]:
        """(term, most_heads, layer) → nats of all predictions together."""
        n, before = len(self.blocks), None
        found: dict[tuple, float] = {("model", None, None): self.whole}
        for most_heads in range(n + 1):
            found["paths", most_heads, None], gathered = self.again(before)
            if most_heads == 0:

                def only(is_there: Callable[[int], bool], single: Gathered = gathered) -> float:
                    return self.again([x if is_there(layer) else torch.zeros_like(x) for layer, x in enumerate(single)])[0]

                found |= {("layer", 1, one): only(lambda layer, one=one: layer == one) for one in range(n)}
                found |= {("other_layers", 1, one): only(lambda layer, one=one: layer != one) for one in range(n)}
            before = gathered
        return found


def mean_losses(model: Model, texts: Sequence[Sequence[int]]) -> dict[tuple, float]:
    """Of the predictions of several sequences."""
    each = [Runs(model, torch.tensor(text)).losses() for text in texts]
    return {term: sum(found[term] for found in each) / sum(len(text) - 1 for text in texts) for term in each[0]}
