"""Sub-updates switched off one at a time: scores by hand from the weights in float64, effects from plain transformers, and the question over what is kept."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import atlas
from atlas.cli.main import cli
from atlas.live import LiveTrace, SwitchOffResult
from schema.audits import run_audits
from schema.errors import AtlasError
from schema.live import socket_path
from tests.live.conftest import PROMPT, World

PROMPTS = (PROMPT, "We hold these truths to be", "x")
N, LAYERS = 3, (0, 2)


@pytest.fixture(scope="module")
def atlas_copy(process: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An atlas to save beside, whose process is the same."""
    copy = tmp_path_factory.mktemp("switching") / "copy.duckdb"
    shutil.copy(process.atlas, copy)
    socket_path(copy).symlink_to(socket_path(process.atlas))
    return copy


@pytest.fixture(scope="module")
def switched(atlas_copy: Path) -> SwitchOffResult:
    with atlas.open(atlas_copy) as a:
        return a.live().switch_off(PROMPTS, N, layers=LAYERS)


def run_by_hand(hf: Any, ids: torch.Tensor, without: tuple[int, int] | None = None) -> tuple[list[torch.Tensor], torch.Tensor, torch.Tensor]:
    """(coefficients of each layer, the stream before the final norm, logits) at the last token; without: layer and neuron set to zero there."""
    found: dict[Any, torch.Tensor] = {}

    def read(layer: int) -> Any:
        def hook(_: Any, args: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
            x = args[0].clone()
            if without is not None and without[0] == layer:
                x[0, -1, without[1]] = 0
            found[layer] = x[0, -1]
            return (x,)

        return hook

    handles = [block.mlp.down_proj.register_forward_pre_hook(read(layer)) for layer, block in enumerate(hf.model.layers)]
    handles.append(hf.model.norm.register_forward_pre_hook(lambda _, args: found.__setitem__("last", args[0][0, -1])))
    try:
        with torch.no_grad():
            logits = hf(ids).logits[0, -1]
    finally:
        for handle in handles:
            handle.remove()
    return [found[layer] for layer in range(len(hf.model.layers))], found["last"], logits


def ids_of(process: World, text: str) -> torch.Tensor:
    return torch.tensor([process.tiny.tokenizer(text)["input_ids"]])


@pytest.mark.thorough
def test_scores_and_effects_are_those_of_plain_transformers(process: World, switched: SwitchOffResult) -> None:
    hf = process.tiny.hf.double()
    expected = []
    for prompt_id, text in enumerate(PROMPTS):
        ids = ids_of(process, text)
        coefficients, last, logits = run_by_hand(hf, ids)
        answer = logits.argmax()
        reader, norm = hf.lm_head.weight[answer], hf.model.norm
        scale = (last.square().mean() + norm.variance_epsilon).sqrt()
        for layer in LAYERS:
            values = hf.model.layers[layer].mlp.down_proj.weight.T
            norms = coefficients[layer].abs() * values.norm(dim=1)
            for neuron in norms.argsort(descending=True)[:N].tolist():
                update = (coefficients[layer][neuron] * values[neuron]).detach()
                frozen = (reader * norm.weight) @ update / scale
                effect = logits[answer] - run_by_hand(hf, ids, (layer, neuron))[2][answer]
                expected.append((prompt_id, layer, neuron, (reader @ update).item(), frozen.item(), effect.item()))
    hf.float()
    assert [row[:3] for row in switched.frame.rows()] == [row[:3] for row in expected]
    np.testing.assert_allclose([row[3:] for row in switched.frame.rows()], [row[3:] for row in expected], rtol=2e-4, atol=2e-5)


@pytest.mark.thorough
def test_the_question_answers_for_what_was_kept(atlas_copy: Path, switched: SwitchOffResult) -> None:
    number = switched.save("scores")
    with atlas.open(atlas_copy) as a:
        found = a.ask("score_and_effect", number)
        assert found["layer"].to_list() == list(LAYERS)
        assert found["n"].to_list() == [N * len(PROMPTS)] * len(LAYERS)
        assert found["n_clusters"].to_list() == [len(PROMPTS)] * len(LAYERS)
        for layer, correlation, frozen in found.select("layer", "correlation", "frozen_correlation").rows():
            frame = switched.frame.filter(layer=layer)
            for name, said in (("score", correlation), ("frozen_score", frozen)):
                assert np.corrcoef(frame[name], frame["effect"])[0, 1] == pytest.approx(said, abs=1e-4)
        arms = a.sql(f"SELECT name FROM experiments.arm WHERE experiment_id = {number} ORDER BY arm_id")["name"]
        assert arms.to_list()[:2] == ["base", "L{}N{}=0@{}".format(*switched.frame.row(0)[1:3], ids_of_last(a, number))]
        settings = a.sql(f"SELECT settings ->> 'switched_off' AS n, settings ->> 'layers' AS of FROM experiments.experiment WHERE experiment_id = {number}")
        assert settings.row(0) == ("3", "[0,2]")
        assert [f.audit.name for f in run_audits(a.con) if f.n_rows] == []


def ids_of_last(a: atlas.Atlas, number: int) -> int:
    return a.sql(f"SELECT n_tokens - 1 FROM experiments.prompt WHERE experiment_id = {number} AND prompt_id = 0").item()


def test_more_arms_than_one_request_takes_are_several(atlas_copy: Path) -> None:
    """All 40 neurons of three layers, 64 arms at most at once."""
    with atlas.open(atlas_copy) as a:
        found = a.live().switch_off(["x"], 40, index=0)
    assert found.frame.height == 120
    assert found.tables["arm"]["arm_id"].to_pylist() == list(range(121))
    assert found.tables["outcome"].num_rows == 121


@pytest.mark.thorough
def test_scores_are_null_where_no_coefficient_is_changed(atlas_copy: Path) -> None:
    with atlas.open(atlas_copy) as a:
        found: LiveTrace = a.live().trace(PROMPT, ["L1N3=0@2", "L1H1=0"])
        kept = found.sql("SELECT arm_id, index FROM live_outcome WHERE score IS NOT NULL AND frozen_score IS NOT NULL").rows()
        assert kept == [(1, 2)]
        # the same cell twice is one sub-update
        twice = a.live().trace(PROMPT, [["L1N3*=0.5@2", "L1N3+=1"]]).sql("SELECT score FROM live_outcome WHERE arm_id = 1 AND index = 2").item()
        assert twice == pytest.approx(found.sql("SELECT score FROM live_outcome WHERE arm_id = 1 AND index = 2").item())


WRONG = {
    ("x", "--switch-off", "3", "--layer", "9"): "layer 9 was asked for; the model has layers 0 to 2",
    ("x", "--switch-off", "3", "--set", "L1N1=0"): "--switch-off makes the arms itself",
    ("x", "y"): "several prompts, and --layer, need --switch-off",
    ("x", "--layer", "1"): "several prompts, and --layer, need --switch-off",
    ("x", "--with-trace"): "--with-trace makes --save store the states too: give --save TITLE",
    ("x", "--switch-off", "3", "--index", "99"): "no token 99 under arm 0",
}


@pytest.mark.parametrize("arguments", WRONG)
def test_what_cannot_be_switched_off(atlas_copy: Path, arguments: tuple[str, ...]) -> None:
    done = CliRunner().invoke(cli, ["trace", *arguments, "--db", str(atlas_copy)])
    assert isinstance(done.exception, AtlasError)
    assert WRONG[arguments] in str(done.exception)


def test_the_command_keeps_it_and_shows_the_layers(atlas_copy: Path) -> None:
    done = CliRunner().invoke(cli, ["trace", *PROMPTS[:2], "--switch-off", "2", "--layer", "1", "--save", "t", "--db", str(atlas_copy)])
    assert done.exit_code == 0, done.output
    assert "sub-updates switched off (4)" in done.output
    assert "frozen_correlation" in done.output
    assert "atlas ask score_and_effect --experiment" in done.output
