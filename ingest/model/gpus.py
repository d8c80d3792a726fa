"""GPUs: which there are, which have room for a model, and why torch may see none."""

import os
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import torch

from schema.errors import first_line

AUTO, SPREAD = "auto", "spread"
"""Device names beyond torch's own: AUTO is a device with room for the model, SPREAD is all GPUs, with a part of the layers on each."""

WEIGHTS_SHARE = 0.8
"""Share of a GPU's free memory that a model's weights may take: the rest is for batches, for reductions and for weights in float32."""

OLDEST_DRIVER = {"12": 525, "13": 580}
"""Major version of the CUDA that torch is built for → major version of the oldest driver that runs it."""

KERNEL_MODULE = Path("/proc/driver/nvidia/version")
"""File in which the driver reports its version; not every container has it."""

SMI = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]


class NoGpu(NamedTuple):
    """Reason why torch sees no GPU, and its remedy: clauses of one line."""

    why: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.why}; {self.remedy}"


class Choice(NamedTuple):
    """Name of a device or number format, and a line that says why it was chosen."""

    name: str
    why: str


def driver_version() -> str | None:
    """Read the version of NVIDIA's driver, such as 580.95.05; None if no driver is found."""
    if KERNEL_MODULE.is_file():
        words = KERNEL_MODULE.read_text(encoding="utf-8", errors="replace").partition("\n")[0].split()
        if found := next((word for word in words if word.replace(".", "").isdecimal() and "." in word), None):
            return found
    try:
        said = subprocess.run(SMI, capture_output=True, text=True, timeout=20, check=True).stdout.split()
    except (OSError, subprocess.SubprocessError):
        return None
    return said[0] if said and said[0][0].isdecimal() else None


def no_gpu() -> NoGpu:
    """Find out why torch sees no GPU. Call it only if torch sees none."""
    another = "install another build (docs/ingest.md: torch and your GPU)"
    cuda = torch.version.cuda
    if cuda is None:
        return NoGpu("it is a build without CUDA", another)
    driver = driver_version()
    if driver is None:
        return NoGpu("this machine has no NVIDIA driver", "install NVIDIA's driver, or compute with --device cpu")
    oldest = OLDEST_DRIVER.get(cuda.partition(".")[0], 0)
    if int(driver.partition(".")[0]) < oldest:
        why = f"it is built for CUDA {cuda}, which needs driver {oldest} or newer, and the driver here is {driver}"
        return NoGpu(why, f"update the driver, or {another} for an older CUDA")
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return NoGpu(f"CUDA_VISIBLE_DEVICES is '{visible}'", "set it to a GPU's number, or unset it")
    return NoGpu(f"driver {driver} is installed, and CUDA reports: {cuda_error_line()}", "see whether `nvidia-smi` lists a GPU")


def cuda_error_line() -> str:
    """Initialise CUDA, and return the first line of the error that this raises."""
    try:
        torch.cuda.init()
    except (AssertionError, RuntimeError) as error:
        return first_line(error)
    return "no GPU"


def free_memory() -> tuple[dict[int, int], str]:
    """Measure the free bytes of each GPU that works, by its number, and return a line about the last GPU that does not ('' if all do).

    A build of torch without code for a GPU lists that GPU all the same, and fails at its first operation.
    """
    free, said = {}, ""
    for i in range(torch.cuda.device_count()):
        try:
            torch.zeros(1, device=f"cuda:{i}").add_(1).item()
            free[i] = torch.cuda.mem_get_info(i)[0]
        except (AssertionError, RuntimeError) as error:
            said = f"cuda:{i} cannot compute with it: {first_line(error)}"
    return free, said


def choose_device(n_bytes: Callable[[], int]) -> Choice:
    """Choose the GPU with the most free memory if the model fits on it, else all GPUs, else the processors. n_bytes: returns the size of the weights."""
    free, said = free_memory()
    if not free:
        return Choice("cpu", f"computing on the processors: torch {torch.__version__} sees no GPU that it can use, since {said or no_gpu().why}")
    n, roomiest = n_bytes(), max(free, key=lambda i: free[i])
    if n <= WEIGHTS_SHARE * free[roomiest]:
        return Choice(f"cuda:{roomiest}", f"computing on cuda:{roomiest}, {torch.cuda.get_device_name(roomiest)}")
    if n <= WEIGHTS_SHARE * sum(free.values()):
        return Choice(SPREAD, f"computing on {len(free)} GPUs, with the layers spread over them: weights of {n / 1e9:.1f} GB do not fit on one")
    why = f"the model has {n / 1e9:.1f} GB of weights, and GPUs have {sum(free.values()) / 1e9:.1f} GB free, of which batches need a part"
    return Choice("cpu", f"computing on the processors: {why}; --dtype bfloat16 halves weights in float32, --device cuda tries a GPU nevertheless")


def gpu_facts(devices: Iterable[torch.device]) -> dict[str, str]:
    """Name the GPUs among some devices, their driver, and the CUDA that torch was built for; empty if there are no GPUs among them."""
    gpus = [device for device in devices if device.type == "cuda"]
    if not gpus:
        return {}
    names = sorted({torch.cuda.get_device_name(device) for device in gpus})
    return {"gpu": ", ".join(names), "driver": driver_version() or "unknown", "cuda": torch.version.cuda or "unknown"}
