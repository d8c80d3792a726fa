"""One intervention: what is changed, where, how and by how much."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from schema.interventions.positions import Positions
from schema.interventions.sites import WITH_UNITS

STRENGTHS = ("times_max", "times_min", "norm")
"""Scales that make settings of different neurons comparable: a multiple of the neuron's largest, or of its smallest (most negative), coefficient in a corpus;
or the signed length r of the vector that the neuron writes, so that |value|·‖v‖ = |r|."""


@dataclass(frozen=True)
class Strength:
    kind: str
    amount: float
    corpus_id: int | None
    """Corpus of times_max and times_min; None for norm."""

    def as_json(self) -> dict[str, Any]:
        return {self.kind: self.amount} | ({} if self.corpus_id is None else {"corpus_id": self.corpus_id})


@dataclass(frozen=True)
class Source:
    """Source of the states that replace others: the run of a prompt without any intervention."""

    prompt_id: int | None
    """None for the prompt that the intervention acts on."""
    index: int | None
    """None for the index at which a state is replaced."""

    def as_json(self) -> dict[str, int]:
        return {key: value for key, value in (("prompt_id", self.prompt_id), ("index", self.index)) if value is not None}


@dataclass(frozen=True)
class Intervention:
    """One change to a forward pass, checked by itself but not yet against a model, which `resolve` does.

    Fields that its op does not have are None, or () for `edges`.
    """

    site: str
    op: str
    layer: int | None = None
    """None only for the embedding."""
    units: tuple[int, ...] | None = None
    """Units in ascending order. None for a site that is changed as a whole; in an intervention that is not resolved yet, None also stands for all units."""
    positions: Positions | None = None
    value: float | None = None
    strength: Strength | None = None
    source: Source | None = None
    of: tuple[int, int] | None = None
    """Layer and neuron whose value vector is added."""
    vector: str | None = None
    """SHA-256 of a vector's float32 bytes, little-endian: the vector itself is passed separately."""
    seed: int | None = None
    corpus_id: int | None = None
    edges: tuple[tuple[int, int], ...] = ()
    """Pairs of destination and source."""

    @property
    def where(self) -> str:
        """Site, unit and layer, for messages."""
        unit = "" if self.units is None or len(self.units) != 1 else f" {self.units[0]}"
        return self.site + unit + ("" if self.layer is None else f" of layer {self.layer}")

    def as_json(self) -> dict[str, Any]:
        """Build the JSON object that `arm_of` reads as this intervention."""
        found: dict[str, Any] = {"site": self.site, "op": self.op}
        given = {
            "layer": self.layer,
            "units": list(self.units) if self.units is not None else "all" if self.site in WITH_UNITS else None,
            "value": self.value,
            "strength": None if self.strength is None else self.strength.as_json(),
            "positions": None if self.positions is None else self.positions.as_json(),
            "skip_first": True if self.positions is not None and self.positions.is_first_skipped else None,
            "from": None if self.source is None or (self.op == "resample" and self.source.prompt_id is None) else self.source.as_json(),
            "of": None if self.of is None else list(self.of),
            "vector": self.vector,
            "seed": self.seed,
            "corpus_id": self.corpus_id,
            "edges": [list(edge) for edge in self.edges] or None,
        }
        return found | {key: value for key, value in given.items() if value is not None}


Arm = Sequence[Intervention]
