"""Measurement of many changes to one prompt, each made on top of the same base arms.

The forward pass of a change begins at the first block that the change affects: the blocks below are skipped, and their known states are used instead.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn

from ingest.acting.acting import apply_arms
from ingest.acting.answers import Answer
from ingest.acting.edits import AssignedArm
from ingest.acting.places import shape_of
from ingest.acting.runs import Run
from ingest.model.device import USUAL_TOKENS, in_parts
from ingest.model.hooks import record_layers, register_hooks
from ingest.model.models import Model
from ingest.model.modules import find
from schema.interventions.intervention import Arm, Intervention
from schema.interventions.resolve import resolve


@contextmanager
def output_kinds(model: Model) -> Iterator[set[bool]]:
    """Yield a set to which a forward pass adds True if blocks return a tuple that begins with the state, and False if they return the state itself."""
    found: set[bool] = set()

    def hook(_module: nn.Module, _args: tuple[Any, ...], output: Any) -> None:
        found.add(isinstance(output, tuple))

    with register_hooks(model, [], [(model.layer_path(0), hook)], lambda *_: None):
        yield found


@contextmanager
def begin_at_layer(model: Model, layer: int, states: Tensor, is_tuple: bool) -> Iterator[None]:
    """Begin every forward pass within the context at `layer`, with `states`, [batch, seq, d_model], as resid_post of the layer before.

    Each block below `layer` returns `states` at once, so that hooks on its output still run. is_tuple: whether blocks return a tuple (`output_kinds`).
    The batch must have as many rows as `states`, and positions from 0 on. With layer 0, nothing changes.
    """

    def return_states(*_args: Any, **_kwargs: Any) -> Any:
        return (states, None) if is_tuple else states

    with ExitStack() as stack:
        for below in range(layer):
            module = find(model.backbone_module, model.layer_path(below))
            stack.callback(forward_restorer(module))
            vars(module)["forward"] = return_states
        yield


def forward_restorer(module: nn.Module) -> Callable[[], None]:
    """Build a function that restores a module's present `forward`: the one of its class, or one set on the module itself, as accelerate does."""
    own = vars(module).get("forward")

    def restore_forward() -> None:
        if own is None:
            del vars(module)["forward"]
        else:
            vars(module)["forward"] = own

    return restore_forward


DONOR = 0
"""Id of the prompt from whose run changes take states."""

CPU_TOKENS = 1024
"""Tokens of one forward pass on the CPU: more tokens save no time, and a user who stops the work waits for the end of the pass."""

Progress = Callable[[int, int], None]
"""Callback: gets the number of finished steps and the number of all steps. An exception from it ends the work."""


def first_layer(change: Arm, n_layers: int) -> int:
    """Find the first block whose input or own computation differs under the change; n_layers if the change affects no block."""
    return min((layer_from(one) for one in change), default=n_layers)


def layer_from(one: Intervention) -> int:
    if one.layer is None:
        return 0
    return one.layer + 1 if one.site == "resid_post" else one.layer


def answers_under(
    model: Model, token_ids: Tensor, bases: Sequence[Arm], changes: Sequence[Arm], donor: Run, answer: Answer, progress: Progress
) -> tuple[Tensor, Tensor]:
    """Compute `Answer.readings` under each base arm, [bases, 2], and under each change on top of each base arm, [changes, bases, 2].

    token_ids: [seq]; the last positions predict the answer's tokens. bases: arms that change the embedding alone, or nothing.
    donor: the run of prompt DONOR, from which changes take states. Results of a pass that skips blocks are exact up to rounding.
    Raises AtlasError for layers, heads and positions that do not exist.
    """
    shape, n_last = shape_of(model), len(answer.tokens)
    bases, changes = ([resolve(arm, shape, lambda *_: None) for arm in arms] for arms in (bases, changes))

    def assign_rows(arms: Sequence[Arm]) -> list[AssignedArm]:
        n = len(token_ids)
        return [AssignedArm(arm, slice(row, row + 1), n - n_last + 1, n, {DONOR: donor}) for row, arm in enumerate(arms)]

    def readings(states: Tensor) -> Tensor:
        return answer.readings(model.lens(states[:, -n_last:].to(model.device))).cpu()

    with apply_arms(model, assign_rows(bases)), output_kinds(model) as kinds, record_layers(model, sites=("resid_post",)) as records:
        model.backbone(token_ids.expand(len(bases), -1))
    streams = [record["resid_post"] for record in records]
    found = torch.empty(len(changes), len(bases), 2, dtype=torch.float64)

    def read_changes(places: tuple[int, ...]) -> None:
        start = first_layer(changes[places[0]], model.n_layers)
        arms = [(*(base if start == 0 else ()), *changes[place]) for place in places for base in bases]
        states = streams[start - 1].repeat(len(places), 1, 1)
        with (
            apply_arms(model, assign_rows(arms)),
            begin_at_layer(model, start, states, True in kinds),
            record_layers(model, last_positions, ("resid_post",)) as above,
        ):
            model.backbone(token_ids.expand(len(arms), -1))
        found[list(places)] = readings(above[-1]["resid_post"]).view(len(places), len(bases), 2)

    def last_positions(x: Tensor) -> Tensor:
        return x[:, -n_last:]

    n_tokens, n_read = len(bases) * len(token_ids), 0
    for batch in batches(changes, model, n_tokens):
        for _ in in_parts(model, batch, lambda _: n_tokens, read_changes):
            pass
        for _ in batch:
            n_read += 1
            progress(n_read, len(changes))
    return readings(streams[-1]), found


def batches(changes: Sequence[Arm], model: Model, n_tokens: int) -> Iterator[tuple[int, ...]]:
    """Yield batches of indices of changes that begin at the same layer. A batch fills one forward pass, in which each change is a row of n_tokens tokens."""
    n = max(1, (CPU_TOKENS if model.device.type == "cpu" else USUAL_TOKENS) // n_tokens)
    starts = [first_layer(change, model.n_layers) for change in changes]
    for _, group in groupby(sorted(range(len(changes)), key=starts.__getitem__), key=starts.__getitem__):
        places = list(group)
        yield from (tuple(places[begin : begin + n]) for begin in range(0, len(places), n))
