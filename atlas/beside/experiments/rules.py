"""Rules of experiments: those that their tables declare, those in audits/, and the rule that an arm's JSON, SHA-256 and rows agree.

`schema.audits` checks the rules of the first two kinds, on the database `experiments`; they also read the table `model` of the atlas.
"""

from collections import defaultdict
from collections.abc import Iterator
from math import isclose
from typing import Any

import duckdb

from atlas.beside.experiments import EXPERIMENTS
from atlas.cursors import fetch_rows
from schema.audits import Finding, companion_audits, run_audit
from schema.errors import AtlasError
from schema.interventions.changes import change_rows, resolved_arm
from schema.interventions.resolve import arm_sha256
from schema.metadata_audits import Audit

ARMS = """
SELECT a.experiment_id, a.arm_id, a.interventions::TEXT, a.sha256
FROM experiments.arm AS a
WHERE $experiment IS NULL OR a.experiment_id = $experiment
ORDER BY ALL
"""
COLUMNS = ("rank", "site", "layer", "unit", "op", "value", "positions", "is_first_skipped")
CHANGES = f"""
SELECT c.experiment_id, c.arm_id, {", ".join(f"c.{name}" for name in COLUMNS).replace("c.positions", "c.positions::TEXT")}
FROM experiments.arm_change AS c
WHERE $experiment IS NULL OR c.experiment_id = $experiment
ORDER BY c.experiment_id, c.arm_id, c.rank
"""

USED = 2.0**-8
"""Relative tolerance between the value that was used and the requested value: bfloat16 has eight binary digits."""

USED_NEAR_ZERO = 2.0**-25
"""Absolute tolerance between the same values, for the smallest numbers: float16 has none between 0 and 2^-24."""

RULE = Audit("experiments.arm: interventions", "an arm's interventions are resolved, its sha256 is computed from them, and arm_change has one row for each", "")


def findings(con: duckdb.DuckDBPyConnection, experiment_id: int) -> Iterator[Finding]:
    """Check every rule for one experiment and yield its finding. Raises AtlasError if a rule cannot be checked.

    A rule is checked for the whole file if the rows that break it have no experiment_id, as those of token_text, which all experiments share.
    """
    for audit in companion_audits(EXPERIMENTS):
        yield run_audit(con, narrow_audit(audit, experiment_id) if "experiment_id" in con.sql(audit.sql).columns else audit)
    yield arm_finding(con, experiment_id)


def narrow_audit(audit: Audit, experiment_id: int) -> Audit:
    """Restrict an audit to one experiment, by the experiment_id of each row that breaks the rule."""
    return Audit(audit.name, audit.rule, f"SELECT r.* FROM (\n{audit.sql.rstrip().removesuffix(';')}\n) AS r WHERE r.experiment_id = {experiment_id:d}")


def arm_finding(con: duckdb.DuckDBPyConnection, experiment_id: int | None) -> Finding:
    """Check the JSON of each arm of an experiment, or of all if the id is None. This is done in Python, since SQL must not parse it."""
    asked = {"experiment": experiment_id}
    rows: dict[tuple, list[dict[str, Any]]] = defaultdict(list)
    for experiment, arm, *row in fetch_rows(con, CHANGES, asked):
        rows[experiment, arm].append(dict(zip(COLUMNS, row, strict=True)))
    wrong = []
    for experiment, arm, text, sha256 in fetch_rows(con, ARMS, asked):
        if why := fault(text, sha256, rows[experiment, arm]):
            wrong.append({"experiment_id": experiment, "arm_id": arm, "fault": why})
    return Finding(RULE, len(wrong), wrong[0] if wrong else None)


def fault(text: str, sha256: str, rows: list[dict[str, Any]]) -> str | None:
    """Describe what is wrong with an arm; None if nothing is."""
    try:
        arm = resolved_arm(text)
    except AtlasError as error:
        return str(error)
    if arm_sha256(arm) != sha256:
        return f"its SHA-256 is {arm_sha256(arm)}, not {sha256}"
    expected = change_rows(arm)
    if len(expected) != len(rows):
        return f"it has {len(expected)} interventions, and arm_change has {len(rows)} rows for it"
    return next(
        (
            f"the row of rank {row['rank']} in arm_change is not the intervention of that rank"
            for row, wanted in zip(rows, expected, strict=True)
            if not is_same_intervention(row, wanted)
        ),
        None,
    )


def is_same_intervention(row: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Tell whether a row of arm_change is the intervention `wanted`. Strengths are not compared: the canonical JSON of `wanted` has none."""
    value, asked = row["value"], wanted["value"]
    is_value = value == asked if None in (value, asked) else isclose(value, asked, rel_tol=USED, abs_tol=USED_NEAR_ZERO)
    return is_value and all(row[name] == wanted[name] for name in COLUMNS if name != "value")
