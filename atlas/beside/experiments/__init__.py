"""Experiments: the file beside the atlas that stores results of changed forward passes and of attributions, its rules, and its questions.

The code that runs the model supplies tables, which are saved as one experiment (store.py) if they obey the rules (rules.py, audits/). Nothing here needs torch.
"""

from pathlib import Path

from schema.open.kinds import Companion

EXPERIMENTS = Companion(
    name="experiments",
    version=1,
    label="experiment_schema",
    tables=Path(__file__).with_name("tables.sql"),
    folder=Path(__file__).parent,
    changed_by="atlas experiment",
    told_by="atlas experiment list",
    again="run them again",
)
