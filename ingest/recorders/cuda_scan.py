"""The scan of a batch by the kernel of cuda_kernel.py, in place of torch's operations, which read the coefficients a dozen times.

It needs numba-cuda, which comes with the extra `gpu`.
"""

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from ingest.model.device import fetched
from ingest.recorders.scan import Batch, Cells, Moments, Triggers, better_cells, no_cells
from schema.terms import HISTOGRAM_BINS


@cache
def can_scan(device: torch.device) -> bool:
    """Whether the kernel runs there; warns of why not where numba-cuda is installed. All its variants are compiled, while there is memory."""
    if torch.version.cuda is None or find_spec("numba_cuda") is None:
        return False
    none = torch.zeros(8, device=device)
    moments = Moments(none, none, none, none, none, torch.zeros(8, HISTOGRAM_BINS, device=device))
    row = torch.zeros(1, dtype=torch.int64, device=device)
    try:
        for dtype in (torch.float32, torch.bfloat16):
            for is_padded in (False, True):
                cuda_scan(Batch(torch.zeros(1, 8, dtype=dtype, device=device), row, row, is_padded), moments, None)
        torch.cuda.synchronize(device)
    except Exception as error:  # whatever the driver, the compiler or their versions say
        warnings.warn(f"numba-cuda does not work here ({' '.join(str(error).split())[:300]}): torch's operations are used, several times slower", stacklevel=2)
        return False
    return True


@cache
def kernel(is_bfloat16: bool, is_padded: bool) -> Any:
    # imported here: it asks the driver for its GPUs
    from numba.cuda.core import config

    from ingest.recorders.cuda_kernel import scan_kernel

    # of a batch's last few rows
    config.CUDA_LOW_OCCUPANCY_WARNINGS = 0
    return scan_kernel(is_bfloat16, is_padded)


def cuda_scan(batch: Batch, moments: Moments, triggers: Triggers | None) -> tuple[Moments, Callable[[], Cells]]:
    """As torch_scan, to float64 rounding in the sums."""
    from numba import cuda

    from ingest.recorders.cuda_kernel import RUN, THREADS

    device, (n_rows, d_ffn) = batch.x.device, batch.x.shape
    n_runs = -(-n_rows // RUN)

    def empty(dtype: torch.dtype) -> Tensor:
        return torch.empty((n_runs, d_ffn), dtype=dtype, device=device)

    total, square, low, high, n_active = empty(torch.float64), empty(torch.float64), empty(torch.float32), empty(torch.float32), empty(torch.int32)
    histogram = torch.zeros((HISTOGRAM_BINS, d_ffn), dtype=torch.int32, device=device)
    n_found = torch.zeros(1, dtype=torch.int32, device=device)
    row, key = torch.empty((2, triggers.best.numel() // 2 if triggers else 0), dtype=torch.int32, device=device)
    x, is_bfloat16 = readable(batch.x)
    arguments = (x, batch.positions, *gates(triggers, d_ffn, device), total, square, low, high, n_active, histogram, n_found, row, key)
    with on(device):
        launched = kernel(is_bfloat16, batch.is_padded)[(-(-d_ffn // THREADS), n_runs), THREADS, stream(cuda, device)]
        launched(*(shared(tensor) for tensor in arguments))
    sums = Moments(n_active.sum(0), total.sum(0), square.sum(0), low.amin(0), high.amax(0), histogram.T)
    if triggers is None:
        return moments.and_also(sums), lambda: no_cells(batch)
    n = fetched(n_found)

    def found() -> Cells:
        # a count that has gone round is negative
        return (row[: n()].long(), key[: n()].long()) if 0 <= n() <= len(row) else better_cells(batch, triggers, 0, n_rows)

    return moments.and_also(sums), found


def gates(triggers: Triggers | None, d_ffn: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The k-th best of both tails and their positions, [2, d_ffn] each; without triggers what nothing passes."""
    if triggers is None:
        return torch.full((2, d_ffn), torch.inf, device=device), torch.zeros((2, d_ffn), dtype=torch.int64, device=device)
    return triggers.best[:, -1].reshape(2, d_ffn).contiguous(), triggers.positions[:, -1].reshape(2, d_ffn).contiguous()


def readable(x: Tensor) -> tuple[Tensor, bool]:
    """Coefficients as the kernel takes them, and whether they are bfloat16 in the guise of integers."""
    if x.dtype == torch.bfloat16:
        return x.contiguous().view(torch.uint16), True
    return x.float().contiguous(), False


def on(device: torch.device) -> AbstractContextManager[Any]:
    """Both libraries' current GPU."""
    if device.type != "cuda":
        return nullcontext()
    from numba import cuda

    return cuda.gpus[device.index]


def shared(tensor: Tensor) -> Any:
    """The same memory as the kernel takes it; on the CPU, where numba's simulator runs it, an array."""
    from numba import cuda

    return cuda.as_cuda_array(tensor) if tensor.is_cuda else tensor.numpy()


def stream(cuda: Any, device: torch.device) -> Any:
    """That on which torch has queued what the kernel reads."""
    handle = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
    return cuda.external_stream(handle) if handle else 0
