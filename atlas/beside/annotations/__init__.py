"""Annotations of keys and values by people: sheets to fill in, the rules for them, and the file beside the atlas that stores them.

Geva et al. 2021, section 3, had people find patterns in the texts that trigger a key; Geva et al. 2022, section 4, concepts in the tokens that a
value promotes. A sheet is written (sheet.py), read once it is filled in (reading.py), checked against the papers' rules (checking.py) and stored
(keeping.py); mining.py proposes patterns, which are never counted as a person's.
"""

from pathlib import Path

from schema.open.kinds import Companion

ANNOTATIONS = Companion(
    name="annotations",
    version=1,
    label="annotation_schema",
    tables=Path(__file__).with_name("tables.sql"),
    folder=Path(__file__).parent,
    changed_by="atlas annotate",
    told_by="atlas annotate status",
    again="load its sheets again",
    hanging=(("pattern_match", "pattern_id", "pattern"),),
)
