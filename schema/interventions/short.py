"""The short form of an intervention, for the command line: L20N630=max*0.5, L9H3=0."""

import re
from typing import Any

from schema.errors import AtlasError
from schema.interventions.intervention import Intervention
from schema.interventions.parse import intervention_of
from schema.interventions.positions import NAMED
from schema.reading import shorten_json

NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
FORM = re.compile(
    rf"L(?P<layer>\d{{1,9}})(?P<kind>[NH])(?P<unit>\d{{1,9}})"
    rf"(?:=(?:(?P<strength>max|min|norm)\*)?(?P<set>{NUMBER})|\*=(?P<scale>{NUMBER})|\+=(?P<add>{NUMBER})|=(?P<mean>mean))"
    r"(?:@(?P<positions>[a-z]{1,20}|\d{1,9}(?::\d{1,9})?))?",
    re.ASCII | re.IGNORECASE,
)
EXAMPLES = "L20N630=max*0.5, L20N630=3.7, L20N630=mean, L20N630*=2, L20N630+=1, L9H3=0, L9H3*=0.5, with @last, @4 or @4:8 to limit the positions"


def intervention_from(text: str, corpus_id: int) -> Intervention:
    """Read an intervention from its short form. If it names no positions, it acts at all positions but the first.

    The coefficient of a neuron (L…N…) can be set, multiplied or added to. It can be set to a number, to a multiple of its largest (max) or smallest (min) value
    in the corpus, to the coefficient that writes a vector of a given length (norm), or to its mean. A head (L…H…) can be set to 0 or multiplied. Raises
    AtlasError for anything else.
    """
    match = FORM.fullmatch(text.strip())
    if match is None:
        raise AtlasError(f"{shorten_json(text)} is no intervention; write one such as {EXAMPLES}")
    found = {key: value for key, value in match.groupdict().items() if value is not None}
    is_head = found["kind"] in "Hh"
    if is_head and (found.keys() & {"strength", "add", "mean"} or float(found.get("set", 0)) != 0):
        raise AtlasError(f"{shorten_json(text)}: a head can only be set to 0 (=0) or multiplied (*=), since its output is a vector")
    item = {"site": "head" if is_head else "coefficient", "layer": int(found["layer"]), "units": [int(found["unit"])]}
    return intervention_of(item | op_of(found, is_head, corpus_id) | positions_of_short(found.get("positions")))


def op_of(found: dict[str, str], is_head: bool, corpus_id: int) -> dict[str, Any]:
    if "mean" in found:
        return {"op": "mean", "corpus_id": corpus_id}
    if "strength" in found:
        kind, amount = found["strength"].lower(), float(found["set"])
        return {"op": "set", "strength": {"norm": amount} if kind == "norm" else {f"times_{kind}": amount, "corpus_id": corpus_id}}
    op = next(op for op in ("set", "scale", "add") if op in found)
    value = float(found[op])
    return {"op": "zero"} if op == "set" and (is_head or value == 0) else {"op": op, "value": value}


def positions_of_short(text: str | None) -> dict[str, Any]:
    if text is None:
        return {"positions": "all", "skip_first": True}
    if text.lower() in NAMED:
        return {"positions": text.lower()}
    indices = [int(part) for part in text.split(":") if part.isdecimal()]
    if not indices:
        raise AtlasError(f"positions {shorten_json(text)} are unknown; they must be {', '.join(NAMED)}, an index such as 4, or a half-open range such as 4:8")
    return {"positions": [indices if len(indices) == 2 else indices[0]]}
