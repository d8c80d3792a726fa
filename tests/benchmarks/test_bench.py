"""`make bench` runs to its end: every section at its smallest size. What it prints is no measurement here."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from ingest.model.models import load_model
from tests.benchmarks import checks, heads, ingest, lake, latency, live, predictions, retrieval, throughput
from tests.exact.tiny import Tiny, make, run
from tests.live.conftest import World, kept

pytestmark = pytest.mark.long

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return make(tmp_path_factory.mktemp("bench"), "gpt2")


@pytest.fixture(scope="module")
def path(tiny: Tiny) -> Path:
    return run(tiny.request(tiny.folder.parent / "bench.duckdb", map=True))


def numbers(printed: str) -> list[float]:
    return [float(n) for n in re.findall(r"\d+\.\d+", printed)]


def test_sweep_trace_and_load(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name, value in {"BATCH": 2, "CONTEXT": 24, "K": 3, "SKIPPED": 1, "MEASURED": 7}.items():
        monkeypatch.setattr(throughput, name, value)
    model = load_model(str(tiny.folder), revision=None, dtype="float32", device="cpu")
    monkeypatch.setattr(throughput, "SAMPLED", (3, 9))
    keys = throughput.bench_sweep(model, tmp_path)
    throughput.bench_trace(model)
    throughput.bench_load(model, keys, tmp_path)
    printed = capsys.readouterr().out
    assert all(line in printed for line in ("(a) sweep", "an empty recorder", "(b) trace", "(c) load", "load_shard")) and len(numbers(printed)) > 8


def test_checks(tiny: Tiny, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(checks, "REPEATS", 1)
    monkeypatch.setattr(checks, "CONTEXT", 24)
    checks.bench_checks(load_model(str(tiny.folder), revision=None, dtype="float32", device="cpu"))
    printed = capsys.readouterr().out
    assert all(line in printed for line in ("(i) checks", "identities", "texts of 24", "attention", "finite weights")) and len(numbers(printed)) == 9


def test_heads(tiny: Tiny, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name, value in {"BATCH": 2, "CONTEXT": 24, "K": 3, "SKIPPED": 1, "MEASURED": 3, "SAMPLED": (3, 9)}.items():
        monkeypatch.setattr(throughput, name, value)
    heads.bench_heads(load_model(str(tiny.folder), revision=None, dtype="float32", device="cpu"))
    printed = capsys.readouterr().out
    assert (
        all(line in printed for line in ("(h) heads", "sweep and head statistics", "trace and attribution", "circuits, one layer"))
        and len(numbers(printed)) > 15
    )


def test_retrieval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name, n in (("N_ENTRIES", 2000), ("N_QUERIES", 5), ("D_MODEL", 16), ("K", 20)):
        monkeypatch.setattr(retrieval, name, n)
    retrieval.bench_retrieval(tmp_path)
    printed = capsys.readouterr().out
    assert "(r) retrieval: 5 queries of 20 neighbours among 2,000 random keys of 16" in printed and len(numbers(printed)) == 7


def test_predictions(tiny: Tiny, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name, value in {"BATCH": 2, "CONTEXT": 24, "K": 3, "SKIPPED": 1, "MEASURED": 3}.items():
        monkeypatch.setattr(throughput, name, value)
    monkeypatch.setattr(predictions, "N_COUNTED", 2**10)
    predictions.bench_predictions(load_model(str(tiny.folder), revision=None, dtype="float32", device="cpu"))
    predictions.bench_counting()
    printed = capsys.readouterr().out
    assert all(line in printed for line in ("(p) predictions", "of the plain sweep", "counting 1,024 tokens")) and len(numbers(printed)) > 12


def test_latency(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(latency, "REPEATS", 1)
    monkeypatch.setattr(latency, "LARGE", 5000)
    latency.bench_questions(path)
    latency.bench_sizes(path)
    latency.bench_large_table(tmp_path)
    printed = capsys.readouterr().out
    # the atlas has no experiments, no retrievals and no collections
    assert (
        all((f"\n    {name} " in printed) == (q.catalog not in ("experiments", "retrievals", "collections")) for name, q in latency.questions().items())
        and "of 5,000 triggers" in printed
    )


def test_ingests(tiny: Tiny, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(ingest, "OPTIONS", ["--model", str(tiny.folder), "--corpus", str(tiny.corpus), "--context", "24", "--shard-positions", "200"])
    ingest.bench_publish(tmp_path, path)
    ingest.bench_workers(tmp_path)
    printed = capsys.readouterr().out
    assert "a snapshot of" in printed and "two over one" in printed


def test_lake(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(lake, "TIMES", 1)
    lake.bench_lake(tmp_path, path)
    printed = capsys.readouterr().out
    assert all(line in printed for line in ("lake over file", *lake.QUESTIONS))


def test_live(tiny: Tiny, path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(live, "REPEATS", 1)
    monkeypatch.setattr(live, "N_NEW", 5)
    sockets = live.private_sockets

    @contextmanager
    def with_weights() -> Iterator[Path]:
        with sockets() as folder:
            kept(World(tiny, path), folder)
            yield folder

    monkeypatch.setattr(live, "private_sockets", with_weights)
    live.bench_live(path)
    printed = capsys.readouterr().out
    assert (
        all(line in printed for line in ("(i) the model process", "cold start", "warm", "generation, no arm", "generation, one arm"))
        and len(numbers(printed)) > 8
    )
