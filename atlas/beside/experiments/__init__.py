"""What a model does when its forward passes are changed, or asked why: the file beside the atlas that keeps it, its rules, and its questions.

Whatever runs the model brings tables, which are saved as one experiment (store.py) if they keep the rules (rules.py, audits/); nothing here needs torch.
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
