"""Parser from JSON to interventions. Each is checked by itself; messages say which one is wrong, what was requested, and what exists."""

import re
from typing import Any

from schema.errors import AtlasError
from schema.interventions.intervention import STRENGTHS, Intervention, Source, Strength
from schema.interventions.positions import positions_of
from schema.interventions.sites import keys
from schema.reading import read_json, read_list, read_number, read_whole_number, shorten_json

MOST_INTERVENTIONS = 1024
MOST_SEEDS = 2**63


def parse_arm(text: str | bytes) -> tuple[Intervention, ...]:
    """Parse an arm's JSON. Raises AtlasError, in one line, for text that is no arm."""
    return arm_of(read_json(text))


def arm_of(given: Any) -> tuple[Intervention, ...]:
    """Build an arm from its parsed JSON: a list of objects. An empty list is an arm too, and changes nothing."""
    return read_list(given, "an arm must be a list of interventions", "intervention", MOST_INTERVENTIONS, intervention_of)


def intervention_of(item: Any) -> Intervention:
    if not isinstance(item, dict):
        raise AtlasError(f"it is {shorten_json(item)}; an intervention must be an object with site, layer, op and positions")
    site, op = (word_of(item, key) for key in ("site", "op"))
    require_keys(item, site, op)
    positions = None if op == "block" else positions_of(item["positions"], item.get("skip_first", False))
    found = Intervention(
        site,
        op,
        layer=read_whole_number(item["layer"], "layer") if "layer" in item else None,
        units=units_of(item["units"]) if "units" in item else None,
        positions=positions,
        value=read_number(item["value"], "value") if "value" in item else None,
        strength=strength_of(item["strength"]) if "strength" in item else None,
        source=source_of(op, item["from"]) if "from" in item else (Source(None, None) if op == "resample" else None),
        of=of_value(item["of"]) if "of" in item else None,
        vector=vector_of(item["vector"]) if "vector" in item else None,
        seed=read_whole_number(item["seed"], "seed", MOST_SEEDS) if "seed" in item else None,
        corpus_id=read_whole_number(item["corpus_id"], "corpus_id") if "corpus_id" in item else None,
        edges=edges_of(item["edges"]) if "edges" in item else (),
    )
    if op == "noise" and (found.value or 0) < 0:
        raise AtlasError(f"value is {found.value:g}; the value of noise is its standard deviation, and must be 0 or more")
    return normalise_site(found)


def normalise_site(found: Intervention) -> Intervention:
    """Rename resid_pre of a layer to resid_post of the layer before, which is the same state. The first layer has none before it and keeps resid_pre."""
    if found.site != "resid_pre" or not found.layer:
        return found
    return Intervention(**{**vars(found), "site": "resid_post", "layer": found.layer - 1})


def word_of(item: dict[str, Any], key: str) -> str:
    if not isinstance(item.get(key), str):
        raise AtlasError(f"{key} is {shorten_json(item.get(key))}; it must be a word" if key in item else f"it has no {key}")
    # a word is repeated in messages
    return str(item[key]) if re.fullmatch(r"\w{1,40}", item[key]) else shorten_json(item[key])


def require_keys(item: dict[str, Any], site: str, op: str) -> None:
    needed, allowed = keys(site, op)
    if "strength" in allowed and "strength" in item:
        needed, allowed = needed - {"value"}, allowed | {"value"}
    if missing := sorted(needed - item.keys()):
        raise AtlasError(f"{op} of {site} needs {', '.join(missing)}" + (" or strength" if missing == ["value"] and "strength" in allowed else ""))
    if unknown := sorted(item.keys() - needed - allowed):
        raise AtlasError(f"{op} of {site} has no key {shorten_json(unknown[0])}; it has {', '.join(sorted(needed | allowed))}")


def units_of(given: Any) -> tuple[int, ...] | None:
    if given == "all":
        return None
    if not isinstance(given, list) or not given:
        raise AtlasError(f"units are {shorten_json(given)}; they must be a list of neurons or heads, or all")
    return tuple(sorted({read_whole_number(unit, "unit") for unit in given}))


def strength_of(given: Any) -> Strength:
    kinds = [kind for kind in STRENGTHS if isinstance(given, dict) and kind in given]
    if len(kinds) != 1:
        raise AtlasError(f"strength is {shorten_json(given)}; it must be an object with one of {', '.join(STRENGTHS)}")
    kind = kinds[0]
    needed = {kind} if kind == "norm" else {kind, "corpus_id"}
    if given.keys() != needed:
        raise AtlasError(f"strength is {shorten_json(given)}; beside {kind} it must have {' and '.join(sorted(needed - {kind})) or 'nothing'}")
    return Strength(kind, read_number(given[kind], kind), None if kind == "norm" else read_whole_number(given["corpus_id"], "corpus_id"))


def source_of(op: str, given: Any) -> Source:
    """Read the source of an op. A patch names a prompt and, if one state goes to all positions, that state's index; a resample names a prompt."""
    allowed = {"prompt_id"} if op == "resample" else {"prompt_id", "index"}
    if not isinstance(given, dict) or "prompt_id" not in given or not given.keys() <= allowed:
        raise AtlasError(f"from is {shorten_json(given)}; for {op} it must be an object with {' and '.join(sorted(allowed, reverse=True))}")
    return Source(read_whole_number(given["prompt_id"], "prompt_id"), read_whole_number(given["index"], "index") if "index" in given else None)


def of_value(given: Any) -> tuple[int, int]:
    if not isinstance(given, list) or len(given) != 2:
        raise AtlasError(f"of is {shorten_json(given)}; it must be [layer, neuron], the neuron whose value is added")
    return read_whole_number(given[0], "layer of a value"), read_whole_number(given[1], "neuron of a value")


def vector_of(given: Any) -> str:
    if not isinstance(given, str) or re.fullmatch("[0-9a-f]{64}", given) is None:
        raise AtlasError(f"vector is {shorten_json(given)}; it must be the SHA-256 of a vector's float32 bytes, 64 hexadecimal digits")
    return given


def edges_of(given: Any) -> tuple[tuple[int, int], ...]:
    if not isinstance(given, list) or not given:
        raise AtlasError(f"edges are {shorten_json(given)}; they must be a list of [destination, source]")
    found = set()
    for edge in given:
        if not isinstance(edge, list) or len(edge) != 2:
            raise AtlasError(f"an edge is {shorten_json(edge)}; it must be [destination, source]")
        destination, source = read_whole_number(edge[0], "destination"), read_whole_number(edge[1], "source")
        if source > destination:
            raise AtlasError(f"the edge {shorten_json(edge)} reads ahead; it must be [destination, source], and no position reads a later one")
        found.add((destination, source))
    return tuple(sorted(found))
