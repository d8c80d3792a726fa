"""States of a prompt's own run, without intervention, at the sites from which arms take states."""

from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from typing import Any

from torch import Tensor, nn

from ingest.acting.places import Site, module_at, reading_place, state
from ingest.model.hooks import output_state
from ingest.model.models import Model
from schema.interventions.intervention import Arm

Run = Mapping[Site, Tensor]
"""States of one prompt without any intervention: site → [seq, width] in the model's dtype, in the units in which the site is changed."""


def wanted_sites(arms: Collection[Arm]) -> dict[int | None, set[Site]]:
    """Map each prompt to the sites whose states arms take from its run; the key None stands for the prompt on which the arms act."""
    wanted: dict[int | None, set[Site]] = {}
    for arm in arms:
        for change in arm:
            if change.source is not None:
                wanted.setdefault(change.source.prompt_id, set()).add((change.site, change.layer))
    return wanted


def record_run(model: Model, token_ids: Tensor, wanted: Collection[Site]) -> Run:
    """Record the states at the wanted sites while the model reads one prompt. token_ids: [seq]."""
    found: dict[Site, Tensor] = {}

    def make_hook(site: Site, is_output: bool) -> Callable[..., None]:
        def hook(_module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            found[site] = state(output_state(output) if is_output else args[0], (1, len(token_ids)))[0].clone()

        return hook

    with ExitStack() as stack:
        for site in wanted:
            place = reading_place(model, site)
            stack.callback(module_at(model, place).register_forward_hook(make_hook(site, place.is_output)).remove)
        model.backbone(token_ids[None])
    return found
