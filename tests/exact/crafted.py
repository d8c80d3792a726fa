"""A ReLU model whose values and text agree as in a trained one, and its atlas: what the figures of both papers are checked on.

It is random, but most of its values are set to the embedding of the token that follows their key's top trigger; one key of each layer never
fires. Nothing here is shared with ingest or with the SQL of the atlas.
"""

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.exact.checks import Case
from tests.exact.reference import Cut, Reference, cut_texts
from tests.exact.tiny import CONTEXT, D_FFN, TWIN_TOKENS, Tiny, make, run

TEXTS = [
    "The first of the people of the world speaks to the union, and the world is silent for a while.",
    "We hold these truths to be self-evident, that all men are created equal; that they are endowed with rights.",
    "In the beginning of the year the treasury held more than the law asks, and the debt of the states was small.",
    "An old mill stood by the river, and the children of the village knew each of its doors and none of its ghosts.",
    "of the",
    "Zwei Boxkämpfer jagen Viktor; the rest is in another tongue, for 17 of them.",
    "Send word to the governor that the ships have not come, that no ship will come, and that we keep the harbour.",
]
K, DEAD = 50, 39
LAYERS = range(3)
LENGTHS = (0.8, 1.0, 1.2)
"""How long each layer's values are, times the embedding: no layer drowns the others."""

SET = (3, 4, 5)
"""How many of every six values of a layer are set."""


def craft(tiny: Tiny, cut: Cut) -> None:
    """Soften norms and biases, so that a value's top token is near the logit lens's; then set values, with rising length,
    to the embedding of what follows its key's top trigger, layer by layer: those above read the change."""
    head = tiny.hf.get_output_embeddings().weight
    with torch.no_grad():
        # the twins would tie everywhere
        head[TWIN_TOKENS[0]] = head[TWIN_TOKENS[0] - 1].flip(0)
        for name, parameter in tiny.hf.named_parameters():
            if "layer_norm.weight" in name:
                parameter.mul_(0.5).add_(1)
            elif name.endswith("bias") and "fc1" not in name:
                parameter.mul_(0.2)
        for layer in LAYERS:
            block = tiny.hf.model.decoder.layers[layer]
            block.fc1.bias[DEAD] = -1000
            m = Reference(tiny.hf).read(cut, np.arange(1)).coefficients[layer]
            for neuron in (n for n in range(D_FFN) if n % 6 < SET[layer]):
                following = cut.next_token_ids[m[:, neuron].argmax()]
                if following >= 0:
                    block.fc2.weight[:, neuron] = head[following] * LENGTHS[layer] * (0.5 + neuron / 20)
    tiny.hf.save_pretrained(tiny.folder)


def crafted_case(folder: Path) -> Case:
    """Make the model, ingest it with a paper run, and read it by brute force."""
    tiny = make(folder, "opt", TEXTS)
    craft(tiny, cut_texts(tiny.texts, tiny.tokenizer, CONTEXT, tiny.bos))
    # one sequence a batch: the forward pass is the reference's to the bit, and no near-tie falls the other way
    asked = tiny.request(folder / "atlas.duckdb", triggers=K, trace=300, batch_size=1)
    return tiny.case(run(asked), asked, "crafted opt")


def telling(c: Case, condition: bool, what: str) -> None:
    """On the crafted model every definition must make a difference; a trained model is as it is."""
    assert condition or c.name != "crafted opt", what


def ask(c: Case, call: str, columns: str) -> list[tuple]:
    return c.published.rows(f"SELECT {columns} FROM {call}")


def same(got: list[tuple], want: list[tuple]) -> None:
    assert len(got) == len(want)
    for row, expected in zip(got, want, strict=True):
        assert tuple(row) == tuple(e if isinstance(e, str) else pytest.approx(e, rel=1e-4, abs=1e-6) for e in expected)


def value_scores(c: Case, layer: int, neuron: int) -> np.ndarray:
    """E·v_i, [d_vocab]."""
    return (c.reference.embedding @ c.reference.values(layer)[neuron]).numpy()


def softmax(scores: np.ndarray) -> np.ndarray:
    e = np.exp(scores - scores.max())
    return e / e.sum()
