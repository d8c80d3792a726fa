"""What a model is checked for when it is loaded, over bare forward passes over the same tokens."""

import statistics
from collections.abc import Callable

import torch

from ingest.model.checks import SHORT, check_attention, check_identities, probe_tokens, require_finite_weights
from ingest.model.models import Model
from ingest.model.neighbours import check_texts
from ingest.timing import measure_seconds

REPEATS, CONTEXT = 3, 256


def bench_checks(model: Model) -> None:
    """Each check and the forward passes that it makes, in turn."""
    short, long = probe_tokens(model), probe_tokens(model, CONTEXT)

    def whole() -> None:
        with torch.inference_mode():
            model.hf(input_ids=short.to(model.input_device), use_cache=False)

    def texts() -> None:
        model.backbone(long)
        model.backbone(long[:1, :SHORT])

    pairs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "identities": (lambda: check_identities(model), whole),
        f"texts of {CONTEXT}": (lambda: check_texts(model, CONTEXT), texts),
        "attention": (lambda: check_attention(model), lambda: model.backbone(short)),
    }
    weights: list[float] = []
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in pairs}
    for i in range(1 + REPEATS):
        found = {name: (measure_seconds(check), measure_seconds(bare)) for name, (check, bare) in pairs.items()}
        # the first fills caches
        if i:
            weights.append(measure_seconds(lambda: require_finite_weights(model)))
            for name, pair in found.items():
                seconds[name].append(pair)
    print(f"\n(i) checks at load over bare forward passes over the same tokens: {model.name}, {model.dtype}, {model.device}, medians of {REPEATS}")
    for name, times in seconds.items():
        print(f"    {name:<20}{statistics.median(c for c, _ in times):10.3f} s{statistics.median(c / b for c, b in times):10.2f} times the passes")
    all_of = [(sum(c for c, _ in turn), sum(b for _, b in turn)) for turn in zip(*seconds.values(), strict=True)]
    print(f"    {'all':<20}{statistics.median(c for c, _ in all_of):10.3f} s{statistics.median(c / b for c, b in all_of):10.2f} times the passes")
    print(f"    {'finite weights':<20}{statistics.median(weights):10.3f} s, a part of the identities")
