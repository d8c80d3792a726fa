"""Probe for induction during training: random tokens that repeat, read at every check (Elhage et al. 2021; Olsson et al. 2022)."""

import json
from collections.abc import Iterable
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ingest.model.reference import FOLDERS
from schema.errors import AtlasError

FILE = "curve.json"
"""Name of the file of probes, in the folder of the model's weights."""

MOST_BYTES = 2**24
"""Maximum bytes of FILE: some eighty thousand checks."""

N_SEQUENCES, BLOCK = 10, 50


class Probe(NamedTuple):
    """One check of a model that is being trained. Losses are in nats per token, scores are mean attention weights in [0, 1]."""

    step: int
    first_block: float
    """Loss on the first copy of the block, whose tokens nothing predicts."""
    second_block: float
    """Loss on the second copy; how far it is below first_block shows what the model takes from the first copy."""
    induction: float
    """Largest score of a head: its mean weight on the token that followed the previous copy of the destination's token (prefix matching)."""
    induction_layer: int
    induction_head: int
    previous: float
    """Largest score of a head: its mean weight on the token before the destination."""
    previous_layer: int
    previous_head: int


def probe_rows(vocabulary: int, bos: int) -> np.ndarray:
    """Draw rows of BOS and a block of BLOCK different tokens (all, if there are fewer) twice, [N_SEQUENCES, 1 + 2 BLOCK] int64; the same at every check."""
    rng = np.random.default_rng(0)
    blocks = [rng.permutation(np.delete(np.arange(vocabulary), bos))[:BLOCK] for _ in range(N_SEQUENCES)]
    return np.array([[bos, *block, *block] for block in blocks])


def measure(model: Any, step: int, bos: int) -> Probe:
    """Measure the losses and the scores of a check. model: a causal language model, put in evaluation mode; its attention code is changed and restored."""
    import torch

    rows = torch.from_numpy(probe_rows(model.config.vocab_size, bos))
    size = rows.shape[1] // 2
    usual = model.config._attn_implementation
    model.eval()
    # the faster code gives no weights
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        seen = model(rows, output_attentions=True, use_cache=False)
    model.set_attn_implementation(usual)
    losses = torch.nn.functional.cross_entropy(seen.logits[:, :-1].transpose(1, 2).float(), rows[:, 1:], reduction="none").mean(0)
    weights = torch.stack(seen.attentions).mean(1).float()
    induction = weights.diagonal(1 - size, dim1=-2, dim2=-1)[..., 2:].mean(-1)
    previous = weights.diagonal(-1, dim1=-2, dim2=-1).mean(-1)
    return Probe(step, losses[:size].mean().item(), losses[size:].mean().item(), *find_largest_score(induction.numpy()), *find_largest_score(previous.numpy()))


def find_largest_score(scores: np.ndarray) -> tuple[float, int, int]:
    """Find the largest of scores [layer, head], and its layer and head."""
    layer, head = np.unravel_index(scores.argmax(), scores.shape)
    return float(scores[layer, head]), int(layer), int(head)


def write_curve(folder: Path, probes: Iterable[Probe]) -> None:
    rows = ",\n".join(json.dumps({name: round(value, 5) for name, value in probe._asdict().items()}) for probe in probes)
    (folder / FILE).write_text(f"[\n{rows}\n]\n", encoding="utf-8")


def read_curve(folder: Path) -> list[Probe]:
    """Read the probes of a model's training, in the order of steps: they show the birth of induction. Empty if the training was not probed.

    folder: the folder of the model's weights. Raises AtlasError if FILE is there and holds something else.
    """
    file = folder / FILE
    if not file.is_file():
        return []
    try:
        if (size := file.stat().st_size) > MOST_BYTES:
            raise ValueError(f"it has {size:,} bytes, and at most {MOST_BYTES:,} are read")
        found = [Probe(**{name: kind(row[name]) for name, kind in Probe.__annotations__.items()}) for row in json.loads(file.read_text(encoding="utf-8"))]
        require_checks(found)
    except (ArithmeticError, KeyError, OSError, RecursionError, TypeError, ValueError) as error:
        raise AtlasError(f"{file} is no curve of a training that was probed: {type(error).__name__}: {error}; move it away to go on without it") from error
    return found


def require_checks(found: list[Probe]) -> None:
    """Raise ValueError for steps that do not rise, and for numbers that no probe yields: a model's folder may come from anyone."""
    for i, check in enumerate(found):
        if not (found[i - 1].step if i else -1) < check.step < 2**31:
            raise ValueError(f"check {i} is of step {check.step}, and steps must rise")
        for name, value in check._asdict().items():
            if isinstance(value, float) and not isfinite(value):
                raise ValueError(f"the {name} of check {i} is {value}, which is not finite")
            if name.endswith(("_layer", "_head")) and not 0 <= value < 2**15:
                raise ValueError(f"the {name} of check {i} is {value}; it must be from 0 to {2**15 - 1:,}")


def curve(model: str) -> list[Probe]:
    """Read the curve of a model, given by name or folder; empty if it has none."""
    return read_curve(FOLDERS.get(model, Path(model).expanduser()))
