"""Conversion of resolved arms to table rows, and reading of resolved arms from their canonical JSON."""

import json
from typing import Any

from schema.errors import AtlasError
from schema.interventions.intervention import Arm, Intervention
from schema.interventions.parse import intervention_of
from schema.interventions.resolve import MOST_CHANGES, canonical_json, place_in_pass
from schema.interventions.sites import WITH_UNITS
from schema.reading import no_number, read_list, require_shallow


def change_rows(arm: Arm) -> list[dict[str, Any]]:
    """Build the rows of experiments.arm_change for a resolved arm, each column → value.

    Missing are the columns that identify the arm, and sub_update_norm, which depends on the weights.
    """
    return [{"rank": rank, **change_row(change)} for rank, change in enumerate(arm, start=1)]


def change_row(change: Intervention) -> dict[str, Any]:
    return {
        "site": change.site,
        "layer": change.layer,
        "unit": change.units[0] if change.units else None,
        "op": change.op,
        "value": change.value,
        "strength_kind": None if change.strength is None else change.strength.kind,
        "strength": None if change.strength is None else change.strength.amount,
        "positions": None if change.positions is None else json.dumps(change.positions.as_json(), separators=(",", ":")),
        "is_first_skipped": change.positions is not None and change.positions.is_first_skipped,
    }


def resolved_arm(text: str) -> tuple[Intervention, ...]:
    """Read a resolved arm of up to MOST_CHANGES interventions from its canonical JSON. Raises AtlasError for any other text."""
    require_shallow(text, "interventions")
    try:
        items = json.loads(text, parse_constant=no_number)
    except ValueError as error:
        raise AtlasError(f"interventions must be JSON, and these are not: {error}") from None
    found = read_list(items, f"an arm must be a list of at most {MOST_CHANGES:,} interventions", "intervention", MOST_CHANGES, intervention_of)
    if canonical_json(found) != text:
        raise AtlasError("these interventions are not in canonical JSON: see schema.interventions.resolve.canonical_json")
    if any(change.site in WITH_UNITS and len(change.units or ()) != 1 for change in found) or list(found) != sorted(found, key=place_in_pass):
        raise AtlasError("these interventions are not resolved: each must have one unit, and they must be in the order of the forward pass")
    return found
