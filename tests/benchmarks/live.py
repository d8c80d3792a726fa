"""The model process of an atlas: how long until the first answer, and how many tokens a second it goes on with, beside the bare model."""

import statistics
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import torch

import atlas
from ingest.live.weights import load_wanted, wanted_model
from ingest.live_cli import end_process
from ingest.model.models import Model
from schema.open.store import open_reader
from tests.live.conftest import private_sockets, processes_of

TEXT = "The city council met on Monday to"
N_NEW = 50
REPEATS = 5


def bench_live(db: Path) -> None:
    """Its sockets and its kept weights are in a folder of its own."""
    with private_sockets(), atlas.open(db) as a:
        first = seconds(lambda: a.live().trace(TEXT))
        stop(db)
        cold = seconds(lambda: a.live().trace(TEXT))
        warm = median(lambda: a.live().trace(TEXT))
        arms = {"no arm": [], "one arm": [arm_of(a)]}
        rates = {name: rate(a, of) for name, of in arms.items()}
        stop(db)
        with closing(open_reader(db)) as con:
            model = load_wanted(wanted_model(con), None, "cpu", lambda _: None)
    forward, *bare = bare_figures(model, len(rates))
    print(f"\n(i) the model process of {db.name}")
    print(f"    first start, weights read anew: answer{first:9.2f} s")
    print(f"    cold start, weights kept: first answer{cold:10.2f} s, {cold / forward:8.0f} times the bare forward pass ({forward:.3f} s)")
    print(f"    warm: an answer                       {warm:10.2f} s, {warm / forward:8.1f} times")
    for n, ((name, found), own) in enumerate(zip(rates.items(), bare, strict=True), 1):
        print(f"    generation, {name:<10}{found:10.1f} tokens a second and row, {found / own:6.2f} of transformers' own with {n} in a batch ({own:.1f})")


def stop(db: Path) -> None:
    end_process(db)
    while processes_of(db):
        time.sleep(0.05)


def arm_of(a: atlas.Atlas) -> str:
    """A neuron in the middle."""
    layer, neuron = a.sql("SELECT m.n_layers // 2, m.d_ffn // 2 FROM model AS m").row(0)
    return f"L{layer}N{neuron}*=2"


def rate(a: atlas.Atlas, arms: list[str]) -> float:
    """Tokens a second of each row: the time that N_NEW tokens add to an answer without the trace."""

    def ask(n_new: int) -> int:
        return max(map(len, a.live().answer(TEXT, arms, n_new=n_new, is_traced=False)["generation"]["token_ids"].to_pylist()), default=0)

    n = ask(N_NEW)
    return n / (median(lambda: ask(N_NEW)) - median(lambda: ask(0)))


def bare_figures(model: Model, most_rows: int) -> list[float]:
    """Seconds of a forward pass over the prompt; tokens a second and row of transformers' `generate` with 1 to `most_rows` rows.

    An arm goes on in a batch with the row that has none.
    """
    ids = torch.tensor([model.tokenizer(TEXT)["input_ids"]])
    with torch.inference_mode():
        return [median(lambda: model.hf(ids))] + [N_NEW / median(partial(generate, model, ids.repeat(n, 1))) for n in range(1, most_rows + 1)]


def generate(model: Model, ids: torch.Tensor) -> None:
    given = {"attention_mask": torch.ones_like(ids), "max_new_tokens": N_NEW, "min_new_tokens": N_NEW, "do_sample": False, "pad_token_id": 0}
    model.hf.generate(ids, **given)


def seconds(do: Callable[[], object]) -> float:
    start = time.perf_counter()
    do()
    return time.perf_counter() - start


def median(do: Callable[[], object]) -> float:
    """Of REPEATS, after one that does not count."""
    do()
    return statistics.median(seconds(do) for _ in range(REPEATS))
