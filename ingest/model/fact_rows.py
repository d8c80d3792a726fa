"""What an atlas keeps of how a model was read: each fact of its architecture, and the error of the equation that would fail if the fact were wrong."""

import json
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from ingest.model.checks import probe_texts
from ingest.model.facts import Attention, Rotary
from ingest.model.models import Model

PROOF = {
    "embedding": ("stream.token_embedding", "stream.embedding_multiplier", "stream.embedding_norm", "stream.position_embedding", "stream.position_offset"),
    "stream": ("stream.backbone", "stream.layers"),
    "residual": ("attention.write", "ffn.write", "stream.residual_multiplier"),
    "norm": ("ffn.read", "stream.is_parallel"),
    "keys": ("ffn.up", "ffn.gate", "ffn.layout", "ffn.activation"),
    "ffn": ("ffn.down", "ffn.after_norm"),
    "logits": ("stream.logit_divisor", "stream.logit_softcap"),
    "final_norm": ("stream.final_norm",),
    "read": ("attention.norm",),
    "heads": ("attention.v", "attention.o", "attention.layout", "attention.n_heads", "attention.after_norm"),
    "pattern": ("attention.q", "attention.k", "attention.scale", "attention.softcap", "attention.window", "attention.is_alibi", "attention.slopes"),
}
"""Identity (`ingest/model/checks.py`) → facts that it fails without. Those of the rotation, and of norms of q and k, belong to "pattern" too."""

OF_FACT = {fact: identity for identity, proven in PROOF.items() for fact in proven}


def list_facts(model: Model) -> list[dict[str, object]]:
    """List the rows of the table `model_fact`: a fact that all layers share is one row without a layer.

    The errors are those of the identities that were checked (`Model.errors`); null for others.
    """
    source = "recognised" if model.architecture.is_recognised else "listed"
    found: list[tuple[int | None, str, object]] = [(None, f"stream.{name}", value) for name, value in values_of(model, model.architecture.stream, 0)]
    for part in ("attention", "ffn"):
        by_layer = [dict(values_of(model, part_of(model, part, layer), layer)) for layer in range(model.n_layers)]
        for name in dict.fromkeys(name for values in by_layer for name in values):
            said = [values.get(name) for values in by_layer]
            layers = enumerate(said) if any(value != said[0] for value in said) else [(None, said[0])]
            found += [(layer, f"{part}.{name}", value) for layer, value in layers]
    return [{"layer": layer, "fact": fact, "value": spell(value), "source": source, **proof_of(model, fact, value)} for layer, fact, value in found]


def part_of(model: Model, part: str, layer: int) -> object:
    return model.mixer(layer) if part == "attention" else model.ffn(layer)


def values_of(model: Model, facts: Any, layer: int) -> Iterator[tuple[str, object]]:
    """List the facts of a part by name, those that depend on the configuration and the layer as they are for this model; of a rotation, each of its own."""
    config = model.hf.config
    for field in fields(facts):
        value = getattr(facts, field.name)
        if callable(value):
            # what depends on the layer too
            value = value(config, layer) if field.name in {"scale", "window", "layer_type"} else value(config)
        if field.name == "rotary":
            yield "rotary", value is not None
            if isinstance(value, Rotary):
                yield from ((f"rotary.{name}", own) for name, own in values_of(model, value, layer))
        elif not (field.name == "unread" and isinstance(facts, Attention)):
            yield field.name, value


def spell(value: object) -> str | None:
    """Write a fact's value as text: a path or a name as it is, numbers and lists as JSON; None for what is not there."""
    return value if value is None or isinstance(value, str) else json.dumps(value)


def proof_of(model: Model, fact: str, value: object) -> dict[str, object]:
    of_pattern = fact.startswith("attention.rotary") or fact in {"attention.q_norm", "attention.k_norm", "attention.is_qk_norm_joint"}
    identity = "pattern" if of_pattern else OF_FACT.get(fact)
    if fact == "attention.window" and isinstance(value, int) and value >= longest_probe(model):
        # no text that was read is long enough
        identity = None
    return {"identity": identity, "error": None if identity is None else model.errors.get(identity)}


def longest_probe(model: Model) -> int:
    """Count the tokens of the longest text on which a model's pattern is proven."""
    return max(tokens.shape[1] for tokens in probe_texts(model))
