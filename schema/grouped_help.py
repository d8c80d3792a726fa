"""Grouped help of a command with many options: the options that everyone needs come first."""

from collections.abc import Mapping, Sequence
from typing import Any

import click


class GroupedCommand(click.Command):
    """A command whose help lists its options by group. groups: heading → names of options; options of no group come last, in their usual order."""

    def __init__(self, *args: Any, groups: Mapping[str, Sequence[str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.groups = groups

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        records = {param.name: record for param in self.get_params(ctx) if (record := param.get_help_record(ctx)) is not None}
        listed = {heading: [records.pop(name) for name in names if name in records] for heading, names in self.groups.items()}
        for heading, rows in {**listed, "Others": list(records.values())}.items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)
