"""The scan of a batch by the kernel of cuda_kernel.py, in place of torch's operations, which read the coefficients a dozen times.

It needs numba-cuda, which comes with the extra `gpu`.
"""

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from ingest.device import fetched
from ingest.recorders.scan import Found, Moments, Part, Triggers, better_cells
from schema.terms import HISTOGRAM_BINS


def has_cuda_scan() -> bool:
    """Whether this torch computes on NVIDIA GPUs, and the kernel can be compiled for them."""
    return torch.version.cuda is not None and find_spec("numba_cuda") is not None


@cache
def kernel(is_bfloat16: bool, is_padded: bool) -> Any:
    # imported here: it asks the driver for its GPUs
    from ingest.recorders.cuda_kernel import scan_kernel

    return scan_kernel(is_bfloat16, is_padded)


def cuda_scan(part: Part, moments: Moments, triggers: Triggers) -> tuple[Moments, Found]:
    """As torch_scan, to float64 rounding in the sums."""
    from numba import cuda

    from ingest.recorders.cuda_kernel import RUN, THREADS

    device, d_ffn, k = part.x.device, part.x.shape[1], triggers.best.shape[1]
    n_runs = -(-(part.end - part.first) // RUN)

    def empty(dtype: torch.dtype) -> Tensor:
        return torch.empty((n_runs, d_ffn), dtype=dtype, device=device)

    total, square, low, high, n_active = empty(torch.float64), empty(torch.float64), empty(torch.float32), empty(torch.float32), empty(torch.int32)
    histogram = torch.zeros((HISTOGRAM_BINS, d_ffn), dtype=torch.int32, device=device)
    n_found = torch.zeros(1, dtype=torch.int32, device=device)
    row, key = torch.empty((2, d_ffn * k), dtype=torch.int32, device=device)
    gates, gate_positions = (kept[:, -1].reshape(2, d_ffn).contiguous() for kept in (triggers.best, triggers.positions))
    x, is_bfloat16 = readable(part.x)
    arguments = (x, part.positions, gates, gate_positions, total, square, low, high, n_active, histogram, n_found, row, key)
    with on(device):
        x, positions, *others = (shared(tensor) for tensor in arguments)
        kernel(is_bfloat16, part.is_padded)[(-(-d_ffn // THREADS), n_runs), THREADS, stream(cuda, device)](x, positions, part.first, part.end, *others)
    n = fetched(n_found)

    def found() -> tuple[Tensor, Tensor]:
        if n() > len(row):
            return better_cells(part, triggers)
        return row[: n()].long(), key[: n()].long()

    sums = Moments(n_active.sum(0), total.sum(0), square.sum(0), low.amin(0), high.amax(0), histogram.T)
    return moments.and_also(sums), found


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
