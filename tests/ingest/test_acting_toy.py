"""A model that fits on paper: two dimensions, one head that reads evenly, one ReLU layer of two neurons, an identity head, no norms.

Tokens 0 and 1 are (1, 0) and (0, 1). The prompt is 0, 1:

    position   resid_pre   attn_out     resid_mid    coefficients   ffn_out       resid_post = logits
    0          (1, 0)      (1, 0)       (2, 0)       2, 0           (2, -2)       (4, -2)
    1          (0, 1)      (½, ½)       (½, 1½)      ½, 1½          (5, ¼)        (5½, 1¾)

Values are (1, -1) and (3, ½). The other prompt, 1, 1, has the states (0, 1), (0, 1), (0, 2), coefficients 0, 2, ffn_out (6, 1) and logits (6, 3).
"""

import pytest
import torch
from torch import Tensor, nn
from transformers import OPTConfig, OPTForCausalLM

from ingest.acting.acting import apply_arms
from ingest.acting.draws import noise
from ingest.acting.edits import AssignedArm, vector_sha256
from ingest.acting.effect import effect
from ingest.model.hooks import record_layers
from ingest.model.models import Model, wrap
from schema.errors import AtlasError
from schema.interventions.parse import arm_of
from tests.ingest.tiny_models import tiny_model, tiny_tokenizer, token_batch

STEER = torch.tensor([2.0, 1.0])
FROM_OTHER = {"from": {"prompt_id": 1, "index": 0}}


@pytest.fixture(scope="module")
def toy() -> Model:
    config = OPTConfig(
        vocab_size=2, hidden_size=2, word_embed_proj_dim=2, ffn_dim=2, num_hidden_layers=1, num_attention_heads=1, max_position_embeddings=8,
        activation_function="relu", pad_token_id=None, bos_token_id=0, eos_token_id=0, enable_bias=False, tie_word_embeddings=False,
    )  # fmt: skip
    hf = OPTForCausalLM(config).eval()
    decoder, identity = hf.model.decoder, torch.eye(2)
    block = decoder.layers[0]
    for parent, norm in ((block, "self_attn_layer_norm"), (block, "final_layer_norm"), (decoder, "final_layer_norm")):
        setattr(parent, norm, nn.Identity())
    with torch.no_grad():
        for module, weight in (
            (decoder.embed_tokens, identity), (hf.lm_head, identity), (block.self_attn.v_proj, identity), (block.self_attn.out_proj, identity),
            (block.fc1, identity), (block.fc2, torch.tensor([[1.0, 3.0], [-1.0, 0.5]])),
        ):  # fmt: skip
            module.weight.copy_(weight)
        for module in (block.self_attn.q_proj, block.self_attn.k_proj, decoder.embed_positions):
            module.weight.zero_()
    return wrap(hf, tiny_tokenizer(), "toy")


def acted(toy: Model, *items: dict) -> tuple[Tensor, Tensor]:
    """Logits [2, 2] without and with these."""
    prompts = {0: torch.tensor([0, 1]), 1: torch.tensor([1, 1])}
    base, arm = effect(toy, prompts, 0, [arm_of(list(items))], [0, 1], lambda *_: 2.0, {vector_sha256(STEER): STEER}).logits
    return base, arm


def at(site: str, op: str, positions: object = (1,), **more: object) -> dict:
    layer = {} if site == "embedding" else {"layer": 0}
    return {"site": site, "op": op, "positions": list(positions) if isinstance(positions, tuple) else positions, **layer, **more}


def neuron(op: str, positions: object = (1,), **more: object) -> dict:
    return at("coefficient", op, positions, units=[1], **more)


def head(op: str, positions: object = (1,), **more: object) -> dict:
    return at("head", op, positions, units=[0], **more)


BASE = [[4, -2], [5.5, 1.75]]
VECTOR = {"vector": vector_sha256(STEER)}


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        # neuron 1 at position 1 is 1½, and each unit of it writes (3, ½)
        (neuron("set", value=4), [[4, -2], [13, 3]]),
        (neuron("set", "all", value=4), [[16, 0], [13, 3]]),
        (neuron("set", "all", value=4, skip_first=True), [[4, -2], [13, 3]]),
        (neuron("set", strength={"times_max": 3, "corpus_id": 0}), [[4, -2], [19, 4]]),
        (neuron("scale", value=2), [[4, -2], [10, 2.5]]),
        (neuron("add", value=-1), [[4, -2], [2.5, 1.25]]),
        (neuron("zero"), [[4, -2], [1, 1]]),
        (neuron("mean", corpus_id=0), [[4, -2], [7, 2]]),
        (neuron("patch", **FROM_OTHER), [[4, -2], [7, 2]]),
        (neuron("resample", (0,), seed=0), [[8.5, -1.25], [5.5, 1.75]]),
        (at("pre_activation", "set", units=[1], value=-3), [[4, -2], [1, 1]]),
        (at("pre_activation", "set", units=[1], value=3), [[4, -2], [10, 2.5]]),
        # the head gathers (½, ½); without it resid_mid is (0, 1), coefficients 0, 1
        (head("zero"), [[4, -2], [3, 1.5]]),
        (at("attn_out", "zero"), [[4, -2], [3, 1.5]]),
        # at half: (¼, 1¼), of which (¼, -¼) + (3¾, ⅝)
        (head("scale", value=0.5), [[4, -2], [4.25, 1.625]]),
        # (2, 1): (2, 2), and (2, -2) + (6, 1)
        (head("mean", corpus_id=0, **VECTOR), [[4, -2], [10, 1]]),
        (at("attn_out", "mean", corpus_id=0, **VECTOR), [[4, -2], [10, 1]]),
        # position 0 of the other gathers (0, 1): (0, 2), and (6, 1)
        (head("patch", **FROM_OTHER), [[4, -2], [6, 3]]),
        (at("attn_out", "patch", **FROM_OTHER), [[4, -2], [6, 3]]),
        # position 0 takes its own position 1's (½, ½): (1½, ½), and (1½, -1½) + (1½, ¼)
        (head("resample", (0,), seed=0), [[4.5, -0.75], [5.5, 1.75]]),
        (at("attn_out", "resample", (0,), seed=0), [[4.5, -0.75], [5.5, 1.75]]),
        (at("ffn_out", "zero"), [[4, -2], [0.5, 1.5]]),
        (at("ffn_out", "mean", corpus_id=0, **VECTOR), [[4, -2], [2.5, 2.5]]),
        (at("ffn_out", "patch", **FROM_OTHER), [[4, -2], [6.5, 2.5]]),
        (at("ffn_out", "resample", (0,), seed=0), [[7, 0.25], [5.5, 1.75]]),
        (at("resid_post", "zero"), [[4, -2], [0, 0]]),
        (at("resid_post", "patch", **FROM_OTHER), [[4, -2], [6, 3]]),
        (at("resid_post", "add_vector", value=-1, **VECTOR), [[4, -2], [3.5, 0.75]]),
        (at("resid_post", "add_value", of=[0, 1], value=2), [[4, -2], [11.5, 2.75]]),
        (at("resid_post", "add_value", of=[0, 1], strength={"norm": 4}), [[4, -2], [11.5, 2.75]]),
        # position 0 at (0, 0) gathers and writes nothing; position 1 gathers (0, ½): (0, 1½), and (4½, ¾)
        (at("resid_pre", "zero", (0,)), [[0, 0], [4.5, 2.25]]),
        (at("resid_pre", "patch", (0,), **FROM_OTHER), [[6, 3], [6, 3]]),
        # position 1 at (2, 2) gathers (1½, 1): (3½, 3); at (3, 1½) it gathers (2, ¾): (5, 2¼)
        (at("resid_pre", "add_vector", value=1, **VECTOR), [[4, -2], [16, 1]]),
        (at("resid_pre", "add_value", of=[0, 1], value=1), [[4, -2], [16.75, -1.625]]),
        # (2½, 2½): (2½, -2½) + (7½, 1¼)
        (at("resid_mid", "add_vector", value=1, **VECTOR), [[4, -2], [12.5, 1.25]]),
        (at("resid_mid", "patch", **FROM_OTHER), [[4, -2], [6, 3]]),
        (at("embedding", "patch", (0,), **FROM_OTHER), [[6, 3], [6, 3]]),
        # position 1 reads itself alone: (0, 2)
        ({"site": "attention", "layer": 0, "op": "block", "edges": [[1, 0]]}, [[4, -2], [6, 3]]),
        # position 1 reads position 0 alone: (1, 1), and (1, -1) + (3, ½)
        ({"site": "attention", "layer": 0, "op": "block", "edges": [[1, 1]], "units": [0]}, [[4, -2], [5, 0.5]]),
    ],
    ids=lambda found: f"{found['site']}-{found['op']}" if isinstance(found, dict) else "",
)
def test_on_paper(toy: Model, item: dict, expected: list) -> None:
    base, got = acted(toy, item)
    assert base.tolist() == BASE
    assert torch.allclose(got, torch.tensor(expected, dtype=torch.float32), atol=1e-5), got


def test_a_position_that_has_no_other_to_be_resampled_from_is_refused(toy: Model) -> None:
    """Index 0 is never taken."""
    with pytest.raises(AtlasError, match="resample needs a position other than 1 and other than the first; a prompt of 2 positions has none"):
        acted(toy, neuron("resample", seed=0))


def test_noise_on_paper(toy: Model) -> None:
    """At the output ½ of what is drawn; at the embedding what follows from the state by hand."""
    drawn = noise(4, 1, 2) / 2
    _, got = acted(toy, at("resid_post", "noise", value=0.5, seed=4))
    assert torch.allclose(got, torch.tensor(BASE) + torch.stack((torch.zeros(2), drawn)), atol=1e-6)
    for site in ("embedding", "resid_pre"):
        _, got = acted(toy, at(site, "noise", value=0.5, seed=4))
        before = torch.tensor([0.0, 1.0]) + drawn
        middle = before + (torch.tensor([1.0, 0.0]) + before) / 2
        m = middle.relu()
        assert torch.allclose(got[1], middle + m[0] * torch.tensor([1.0, -1.0]) + m[1] * torch.tensor([3.0, 0.5]), atol=1e-6)


def test_a_head_is_taken_away_before_the_output_projection_and_its_bias_stays() -> None:
    """Of two heads in four dimensions, whose output projection mixes them: cutting its output would cut dimensions of the stream."""
    model, prompt = tiny_model("opt"), token_batch(1, 5)
    arm = arm_of([{"site": "head", "layer": 0, "op": "zero", "units": [1], "positions": "all"}])
    with record_layers(model, sites=("gathered",)) as records:
        model.backbone(prompt)
    kept = records[0]["gathered"][0, :, : model.d_head]
    with apply_arms(model, [AssignedArm(arm, slice(0, 1), 5, 5)]), record_layers(model) as records:
        model.backbone(prompt)
    o = model.layer_module(0, "self_attn.out_proj")
    assert torch.allclose(records[0]["attn_out"][0], kept @ o.weight[:, : model.d_head].T + o.bias, atol=1e-6)
