"""`atlas into` on a tiny model: the lines add up to what the model's own projection gives at the position."""

import shutil
from pathlib import Path

import duckdb
import pytest
import torch
from click.testing import CliRunner, Result

from ingest.into_cli import into
from ingest.model.models import load_model
from ingest.run import ingest
from schema.errors import AtlasError
from schema.open.store import open_reader
from schema.progress import progress_bar
from tests.exact.tiny import Tiny, make

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return make(tmp_path_factory.mktemp("llama"), "llama")


@pytest.fixture(scope="module")
def target(tiny: Tiny) -> Path:
    path = tiny.folder.parent / "atlas.duckdb"
    with progress_bar(is_quiet=True) as bar:
        ingest(tiny.request(path, trace=0, triggers=3, paper=False), bar)
    return path


def asked(*arguments: object) -> Result:
    return CliRunner().invoke(into, [str(each) for each in arguments])


@pytest.mark.thorough
def test_lines_add_up_to_the_projection(tiny: Tiny, target: Path) -> None:
    with open_reader(target) as con:
        position, sequence, index = con.execute('SELECT position_id, sequence_id, "index" FROM position ORDER BY "index" DESC, 1 LIMIT 1 OFFSET 1').fetchall()[
            0
        ]
        sql = "SELECT token_id FROM position WHERE sequence_id = ? ORDER BY position_id"
        tokens = [token for (token,) in con.execute(sql, [sequence]).fetchall()][: index + 1]
    model, found = load_model(str(tiny.folder), revision=None, dtype="float32", device="cpu"), []
    model.layer_module(2, "mlp.up_proj").register_forward_hook(lambda _, args, output: found.append(float(output[0, -1, 7])))
    model.backbone(torch.tensor([tokens]))
    result = asked(target, position, "L2N7.up", "--model", tiny.folder, "-n", 3)
    assert result.exit_code == 0, result.exception
    names, amounts = zip(*(line.rsplit(maxsplit=1) for line in result.output.splitlines()), strict=True)
    # token, constant, four heads of three layers, FFN and its bias of two
    assert names[3:] == ("15 others", "residual", "pre-activation")
    assert [float(x) for x in amounts[:3]] == sorted(map(float, amounts[:3]), key=lambda x: -abs(x))
    assert sum(map(float, amounts[:-1])) == pytest.approx(found[0], abs=5e-4)
    assert float(amounts[-1]) == pytest.approx(found[0], abs=1e-4)


def test_a_position_that_is_not_there_and_another_model_are_refused(tiny: Tiny, target: Path) -> None:
    assert "no position 999999999; table position lists those that exist" in str(asked(target, 999999999, "L0H0.q", "--model", tiny.folder).exception)
    other = make(tiny.folder.parent / "other", "gpt2")
    refused = asked(target, 1, "L0H0.q", "--model", other.folder).exception
    assert isinstance(refused, AtlasError) and "this atlas is of" in str(refused)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("DELETE FROM model", "is empty: it has no model yet"),
        ("UPDATE position SET token_id = 10000000", r"the position's sequence has token_id 10000000, but .* has only 0 to"),
        (
            'UPDATE position SET sequence_id = 0, "index" = position_id; INSERT INTO position BY NAME '
            'SELECT p.* REPLACE (p.position_id + 10000 * r.i AS position_id, p."index" + 10000 * r.i AS "index") FROM position AS p, range(1, 2000) AS r(i)',
            "positions before it, and no more are read for",
        ),
    ],
)
def test_what_somebody_else_wrote_is_bounded(tiny: Tiny, target: Path, tmp_path: Path, statement: str, said: str) -> None:
    path = Path(shutil.copy(target, tmp_path / "sent.duckdb"))
    with duckdb.connect(str(path)) as con:
        con.execute(statement)
        (last,) = con.execute('SELECT arg_max(position_id, "index") FROM position').fetchone() or (0,)
    with pytest.raises(AtlasError, match=said):
        into.main([str(path), str(last), "L0H0.q", "--model", str(tiny.folder)], standalone_mode=False)


def test_what_a_head_adds_to_a_logit_is_taken_apart_by_who_wrote_it(tiny: Tiny, target: Path) -> None:
    with open_reader(target) as con:
        found = con.execute('SELECT position_id FROM position WHERE "index" = 5 ORDER BY 1 LIMIT 1').fetchone()
    assert found is not None
    result = asked(target, found[0], "L2H1.logit", "--model", tiny.folder)
    assert result.exit_code == 0, result.exception
    names, amounts = zip(*(line.rsplit(maxsplit=1) for line in result.output.splitlines()), strict=True)
    assert {"L0H0", "L1H3", "token", "L1 ffn"} <= {name.strip() for name in names} and names[-1].strip() == "logit"
    assert sum(map(float, amounts[:-1])) == pytest.approx(float(amounts[-1]), abs=5e-4)
