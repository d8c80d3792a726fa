"""Defaults of an ingest (the device on which several workers compute, and the batch size), and the facts recorded about the computation."""

from dataclasses import replace

import torch

from ingest.model.device import usual_batch
from ingest.model.gpus import AUTO, Choice, gpu_facts, no_gpu
from ingest.model.models import Model
from ingest.recorders.torch_keys import counting_code
from ingest.request import Request


def place_workers(request: Request, n_gpus: int) -> tuple[Request, str | None]:
    """Choose the device of several workers if the request leaves it to the atlas, and return a line that says why. n_gpus: the GPUs of this machine.

    The device of a single worker is chosen when its model is known. The GPUs of a cluster's machines are not known here.
    """
    if request.is_alone or request.device != AUTO:
        return request, None
    if request.ray is not None:
        choice = Choice("cpu", "computing on the processors of the cluster: --device cuda uses its GPUs")
    elif n_gpus >= request.workers:
        choice = Choice("cuda", f"computing on {request.workers} GPUs, one a worker")
    else:
        why = f"{request.workers} workers need a GPU each, and torch {torch.__version__} sees {n_gpus}"
        choice = Choice("cpu", f"computing on the processors: {why}{'' if n_gpus else f', since {no_gpu().why}'}")
    return replace(request, device=choice.name), choice.why


def size_batches(request: Request, model: Model) -> Request:
    """Set the request's batch size to the usual number of sequences for its device, unless the request names one."""
    return request if request.batch_size else replace(request, batch_size=usual_batch(kind_of(request, model), request.context))


def kind_of(request: Request, model: Model) -> str:
    """Return the kind of device on which shards are computed, cpu or cuda: that of the model in this process, or that of the workers."""
    return model.device.type if request.is_alone else request.device.partition(":")[0]


def computation_facts(request: Request, model: Model) -> dict[str, str]:
    """List the facts that a run records beside the versions of packages: the GPUs and their driver, and which code counts coefficients.

    On a cluster, only the code is known.
    """
    of_workers = [torch.device("cuda", i) for i in range(request.workers)] if request.device == "cuda" and request.ray is None else []
    return {**gpu_facts(model.devices if request.is_alone else of_workers), "coefficients": counting_code({kind_of(request, model)})}
