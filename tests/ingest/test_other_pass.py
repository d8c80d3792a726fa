"""Another distribution brings a pass, its recorder, table and question, and a family: no file of the packages knows any of them."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

import atlas
from tests import preloaded
from tests.distribution import installed
from tests.exact.tiny import TEXTS, tokenizer, write_corpus
from tests.ingest.other_families import FAMILIES

torch.set_num_threads(1)

GROUPS = {
    "activation_atlas.passes": {"lengths": "tests.ingest.lengths.pass_:PASS"},
    "activation_atlas.tables": {"lengths": "tests.ingest.lengths.tables"},
    "activation_atlas.questions": {"lengths": "tests.ingest.lengths.questions:files"},
    "activation_atlas.architectures": {"lengths": "tests.ingest.other_families:FAMILIES"},
}

COMMAND = """
import os, signal, sys, torch
torch.set_num_threads(1)
sys.path.insert(0, site := sys.argv.pop(1))
os.environ["PYTHONPATH"] = site + os.pathsep + os.environ.get("PYTHONPATH", "")
for name in [name for name in sys.modules if name.partition(".")[0] in ("atlas", "ingest", "schema", "tests")]:
    del sys.modules[name]
from atlas.cli.main import run
from ingest.model.models import Model
from ingest.store.committer import Committer
commit, backbone, kill_after, passes = Committer.commit, Model.backbone, int(sys.argv[1]), []
def counted(self, shard):
    commit(self, shard)
    global kill_after
    kill_after -= 1
    if kill_after == 0:
        os.kill(os.getpid(), signal.SIGKILL)
Committer.commit = counted
Model.backbone = lambda self, ids: (passes.append(1), backbone(self, ids))
code = run(sys.argv[2:], False)
print("forward passes", len(passes))
sys.exit(code)
"""
"""Only the libraries are loaded already: what is ours is imported with the distribution in the path."""

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model of the family, and a corpus."""
    folder = tmp_path_factory.mktemp("other")
    made = AutoModelForCausalLM.from_config(AutoConfig.for_model("stablelm", **FAMILIES["stablelm"].tiny))
    made.save_pretrained(folder / "model")
    tokenizer(with_bos=False).save_pretrained(folder / "model")
    write_corpus(folder / "corpus.jsonl", TEXTS)
    return folder


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[Path]:
    with installed(folder / "site", GROUPS):
        yield folder / "site"


def run(site: Path, *arguments: object, kill_after: int = 0) -> subprocess.CompletedProcess[str]:
    """An `atlas` command in a process of its own in which the distribution is installed; killed after so many shards."""
    return preloaded.run(COMMAND, str(site), str(kill_after), *map(str, arguments))


def ingest(site: Path, folder: Path, name: str, *more: str, kill_after: int = 0) -> subprocess.CompletedProcess[str]:
    arguments = ["--model", folder / "model", "--corpus", folder / "corpus.jsonl", "--context", 24, "--triggers", 3, "--shard-positions", 150]
    return run(site, "ingest", folder / name, *arguments, "--batch-size", 1, *more, kill_after=kill_after)


@pytest.fixture(scope="module")
def made(site: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """What the ingest of both in one go said."""
    ran = ingest(site, folder, "a.duckdb", "--state-length")
    assert ran.returncode == 0, ran.stderr
    return ran


def rows(path: Path) -> list[tuple]:
    with atlas.open(path) as a:
        return a.sql("FROM state_length ORDER BY position_id, layer").rows()


def n_passes(ran: subprocess.CompletedProcess[str]) -> int:
    return int(ran.stdout.split("forward passes ")[1])


def test_it_rides_on_the_sweep_and_is_what_transformers_says(made: subprocess.CompletedProcess[str], site: Path, folder: Path) -> None:
    alone = ingest(site, folder, "sweep.duckdb")
    assert n_passes(made) == n_passes(alone) > 5, "one forward pass for both"
    found = np.array([row[2] for row in rows(folder / "a.duckdb")]).reshape(-1, 2)
    hf = AutoModelForCausalLM.from_pretrained(folder / "model").eval()
    with atlas.open(folder / "a.duckdb") as a:
        texts = a.sql("SELECT sequence_id, list(token_id ORDER BY index) AS ids FROM position GROUP BY sequence_id ORDER BY sequence_id")["ids"].to_list()
    lengths = []
    for ids in texts:
        states = []
        handles = [layer.register_forward_hook(lambda _, __, x, into=states: into.append(x[0] if isinstance(x, tuple) else x)) for layer in hf.model.layers]
        with torch.no_grad():
            hf(torch.tensor([ids]), use_cache=False)
        for handle in handles:
            handle.remove()
        lengths.append(torch.stack([x[0].norm(dim=-1) for x in states], 1).numpy())
    np.testing.assert_allclose(found, np.concatenate(lengths), rtol=1e-5)


@pytest.mark.parametrize("kill_after", [3, 5])
def test_it_goes_on_after_a_kill_to_the_same_rows(made: subprocess.CompletedProcess[str], site: Path, folder: Path, kill_after: int) -> None:
    """After shards of the weights, and between the two shards of one reading."""
    name = f"killed{kill_after}.duckdb"
    assert ingest(site, folder, name, "--state-length", kill_after=kill_after).returncode == -9
    assert ingest(site, folder, name, "--state-length").returncode == 0
    assert rows(folder / name) == rows(folder / "a.duckdb")


def test_asked_for_later_it_reads_the_texts_without_the_sweep(made: subprocess.CompletedProcess[str], site: Path, folder: Path) -> None:
    assert ingest(site, folder, "later.duckdb").returncode == 0
    ran = ingest(site, folder, "later.duckdb", "--state-length")
    assert ran.returncode == 0 and n_passes(ran) == n_passes(made)
    assert rows(folder / "later.duckdb") == rows(folder / "a.duckdb")


def test_it_is_verified_asked_shown_in_status_and_foretold(made: subprocess.CompletedProcess[str], site: Path, folder: Path) -> None:
    path = folder / "a.duckdb"
    verified = run(site, "verify", "--db", path)
    assert verified.returncode == 0, verified.stdout
    with atlas.open(path) as a:
        longest = a.longest_states(1).rows()
        assert longest == sorted(((p, x) for p, layer, x in rows(path) if layer == 1), key=lambda row: (-row[1], row[0]))[:3]
    status = json.loads(run(site, "status", "--db", path, "--json").stdout.split("forward passes")[0])
    assert "state_length" in {r["kind"] for r in status["runs"]} and status["rows"]["state_length"] == len(rows(path))
    dry = ingest(site, folder, "dry.duckdb", "--state-length", "--dry-run")
    lines = [line.split() for line in dry.stdout.splitlines()]
    assert ["state_length", f"{len(rows(path)):,}"] in [line[:2] for line in lines]
    assert any(line[0] == "state_length" and line[1].count(":") == 2 for line in lines if len(line) == 2)
    refused = run(site, "ingest", folder / "none.duckdb", "--model", folder / "model", "--state-length")
    assert refused.returncode == 2 and "--state-length needs --corpus" in refused.stderr
