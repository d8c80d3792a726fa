"""Which passes there are, and in which order; several recorders of one reading where memory runs out."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from ingest import passes as found
from ingest.passes.recording import Sweep
from ingest.recorders.ffn_keys import CpuKeys
from ingest.recorders.reading import read_batch
from ingest.recorders.triggers import TriggerRecorder
from ingest.workers.pool import Job, job
from ingest.workers.worker import Worker
from schema.errors import AtlasError
from tests.distribution import installed
from tests.ingest.lengths.recorder import LengthRecorder
from tests.ingest.test_device import LENGTHS, N_LAYERS, K, check, model_with_room, sequences
from tests.ingest.tiny_models import tiny_model

torch.set_num_threads(1)


class Twice(Sweep):
    pass


class Late(Sweep):
    name = "late"
    after = ("weights", "nothing")


class Round(Sweep):
    name = "round"
    after = ("weights", "round")


TWICE, LATE, ROUND = Twice(), Late(), Round()


@pytest.fixture
def fresh() -> Iterator[None]:
    found.passes.cache_clear()
    yield
    found.passes.cache_clear()


def test_each_comes_after_those_that_it_reads_from() -> None:
    names = list(found.passes())
    assert names == [
        "weights",
        "attribution",
        "head_statistics",
        "keys",
        "prediction",
        "sweep",
        "trace",
        "head_probe",
        "ngram",
        "term_loss",
        "token_state",
        "token_vector",
        "training_curve",
        "word",
        "circuit",
        "control_token",
        "direct_path",
        "head_relation",
        "map",
        "next_token_rank",
        "probe",
        "removal",
        "skip_trigram",
        "test",
        "tree_probe",
        "value_cluster",
        "word_test",
    ]
    assert all(names.index(before) < names.index(each.name) for each in found.passes().values() for before in each.after)


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("TWICE", r"'sweep' is brought twice, by activation-atlas itself and by the entry point .*: rename one"),
        ("LATE", r"the entry point .* is broken: the pass late comes after nothing; there are .*weights"),
        ("ROUND", r"the entry point .* is broken: the pass round comes after itself, by way of weights"),
    ],
)
def test_what_cannot_be_a_pass_is_refused_by_the_name_of_its_entry_point(tmp_path: Path, value: str, said: str) -> None:
    groups = {found.GROUP: {"mine": f"tests.ingest.test_passes:{value}"}}
    with (
        installed(tmp_path / "site", groups),
        pytest.raises(AtlasError, match=said.replace(".*", rf"mine = tests\.ingest\.test_passes:{value} of activation_atlas\.passes \(noise 0\)", 1)),
    ):
        found.passes()


@pytest.mark.parametrize("most", [1, 3])
def test_where_memory_runs_out_every_recorder_has_every_position_once(most: int) -> None:
    (model, _), batch = model_with_room(most, 2), sequences(LENGTHS)
    keys, lengths = CpuKeys(N_LAYERS, model.d_ffn, K), LengthRecorder(N_LAYERS)
    list(read_batch(model, [(TriggerRecorder(keys, 0), None), (lengths, None)], batch))
    check(keys, batch)
    rows = lengths.tables(lambda _: None)["state_length"]
    seen = sorted(zip(rows["layer"].to_pylist(), rows["position_id"].to_pylist(), strict=True))
    assert seen == [(layer, position) for layer in range(N_LAYERS) for position in np.arange(sum(LENGTHS)).tolist()]


def test_what_shards_share_is_kept_while_another_run_of_the_reading_lacks_one() -> None:
    worker = Worker(tiny_model("gpt2"))
    worker.shared_state(1, lambda: "triggers")
    Job(((2, 0),), lambda *_: [{}], {}, frozenset({1, 2})).compute(worker, lambda *_: None)
    assert worker.states == {1: "triggers"}
    job(3, 0, lambda *_: {}).compute(worker, lambda *_: None)
    assert worker.states == {}
