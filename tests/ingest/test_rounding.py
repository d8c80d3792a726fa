"""Bounds that follow rounding: the types of a family's states set them, whoever adds in another order stays within them, and a defect does not."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel

from tests.ingest.acting_oracle import Names, by_hand, put
from tests.ingest.tiny_models import FAMILIES, tiny_hf, token_batch
from tests.rounding import bound_logits

torch.set_num_threads(1)

every_family = pytest.mark.parametrize("family", FAMILIES)
PROMPT = token_batch(1, 9)[0]


class Backwards(TorchFunctionMode):
    """Adds from the last to the first, as a processor with other vectors adds in another order."""

    def __torch_function__(self, function: Callable, types: Sequence[type], args: tuple = (), kwargs: dict | None = None) -> object:
        name = getattr(function, "__name__", "")
        if name == "linear":
            args = (args[0].flip(-1), args[1].flip(-1), *args[2:])
        elif name == "matmul":
            args = (args[0].flip(-1), args[1].flip(-2))
        elif name in ("mean", "softmax"):
            args = (args[0].flip(-1), *args[1:])
        found = function(*args, **(kwargs or {}))
        return found.flip(-1) if name == "softmax" else found


def exact(family: str, **more: object) -> PreTrainedModel:
    return tiny_hf(family, dtype=torch.float64, **more)


def size(logits: Tensor) -> float:
    return float(logits.abs().max())


@every_family
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_sums_in_another_order_stay_within_the_bound(family: str, dtype: torch.dtype) -> None:
    """With attention by the letter, whose softmax most families compute in float32."""
    hf = tiny_hf(family, dtype=dtype, attn_implementation="eager")
    plain = by_hand(hf, PROMPT, [])
    with Backwards():
        other = by_hand(hf, PROMPT, [])
    assert 0 < size(other - plain) <= bound_logits(hf, PROMPT)


@every_family
def test_a_missing_term_and_a_wrong_sign_are_beyond_the_bound(family: str) -> None:
    """Even where they are at one position: one head's write there is left out, or turned round."""
    hf, names = exact(family), Names(family)
    plain, bound = by_hand(hf, PROMPT, []), bound_logits(hf, PROMPT)
    columns = slice(0, hf.config.hidden_size // hf.config.num_attention_heads)
    for change in (0.0, lambda x, _: -x):
        assert size(by_hand(hf, PROMPT, [(names.o(1), "in", put([4], columns, change))]) - plain) > 100 * bound


def test_a_family_is_held_to_the_type_that_its_states_are_computed_in() -> None:
    hf = exact("llama")
    scale = size(by_hand(hf, PROMPT, []))
    assert torch.finfo(torch.float32).eps < bound_logits(hf, PROMPT) / scale < 50 * torch.finfo(torch.float32).eps
    # the same norms in the type of the model
    for name, module in list(hf.named_modules()):
        if name.endswith("norm"):
            parent, _, last = name.rpartition(".")
            norm = torch.nn.RMSNorm(len(module.weight), module.variance_epsilon, dtype=torch.float64)
            norm.load_state_dict(module.state_dict())
            setattr(hf.get_submodule(parent), last, norm)
    assert 1 < bound_logits(hf, PROMPT) / scale / torch.finfo(torch.float64).eps < 50
    # and states that were rounded before they were put in
    assert 0.1 < bound_logits(hf, PROMPT, torch.float32) / scale / torch.finfo(torch.float32).eps < 50
