"""Acting is exact on what was loaded, in every family and dtype; a model with which it is not is refused with the numbers."""

from collections.abc import Callable

import pytest
import torch

from ingest.acting.checks import check_acting
from ingest.model.facts import constant_fact
from ingest.model.models import Model, load_model
from ingest.model.reference import FOLDERS
from schema.errors import AtlasError
from tests.ingest.tiny_models import FAMILIES, tiny_model, with_facts

torch.set_num_threads(1)


@pytest.mark.parametrize("family", FAMILIES)
def test_acting_is_exact_in_every_family(family: str) -> None:
    report = check_acting(tiny_model(family))
    assert set(report) == {"move", "head", "cache"} | (set() if family in ("gemma2", "gemma3_text", "olmo2") else {"value"})
    assert max(report.values()) < 3e-6
    for dtype in (torch.bfloat16, torch.float16):
        check_acting(tiny_model(family, dtype=dtype))


@pytest.mark.parametrize("source", FOLDERS)
def test_acting_is_exact_in_models_that_ship_those_of_attention_alone_too(source: str) -> None:
    check_acting(load_model(source, revision=None, dtype="float32", device="cpu"))


def rounding_at(module: str) -> Callable[[Model], None]:
    """The module adds a little to what it gives, another each time."""

    def spoil(model: Model) -> None:
        model.layer_module(1, module).register_forward_hook(lambda _m, _a, out: out + 1e-4 * torch.rand_like(out))

    return spoil


@pytest.mark.parametrize(
    ("family", "changes", "spoil", "message"),
    [
        (
            "llama",
            {},
            rounding_at("mlp.down_proj"),
            r"tiny-llama \(llama\) .* setting a coefficient to its own value changes nothing: \d+ of 384 numbers change, by up to",
        ),
        (
            "granite",
            {"stream__residual_multiplier": constant_fact(1.0)},
            None,
            r"moves the stream by \(c - m\)·v: relative error 0\.7 at layer 0, tolerance 0\.0001",
        ),
        ("gemma2", {"ffn__after_norm": None}, None, r"moves the stream by \(c - m\)·v: relative error \d"),
        ("llama", {"attention__o": "self_attn.q_proj"}, None, r"setting a head to 0 removes what the head wrote: relative error \d"),
    ],
)
def test_a_model_with_which_acting_is_not_exact_is_refused_with_the_numbers(family: str, changes: dict, spoil: Callable | None, message: str) -> None:
    model = with_facts(tiny_model(family), **changes)
    if spoil is not None:
        spoil(model)
    with pytest.raises(AtlasError, match=message):
        check_acting(model)
