"""Every rule that experiments keep is broken once, and nothing is saved."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import atlas
from atlas.beside.experiments import EXPERIMENTS
from atlas.beside.experiments.inserting import Model, model_of
from atlas.beside.experiments.rules import fault
from atlas.beside.experiments.store import insert_checked_rows, save
from atlas.cli.main import cli
from schema.audits import companion_audits
from schema.errors import AtlasError
from schema.interventions.changes import change_rows, resolved_arm
from schema.interventions.intervention import Intervention
from schema.interventions.parse import arm_of
from schema.interventions.positions import Positions
from schema.interventions.resolve import Shape, arm_sha256, canonical_json, resolve
from schema.open.companion import attach_blank
from schema.open.store import open_writer
from tests.atlas.experiments.looking import rewritten
from tests.atlas.experiments.tiny_experiments import Rows, arrow, cell, knockout, live, patching, saliency, suppression, tracing

BROKEN: list[tuple[str, Callable[[], Rows], Callable[[Rows], Any]]] = [
    ("experiments: base_arm", live, lambda t: t["arm"][1].update(role="base")),
    ("experiments: base_arm", live, lambda t: t["arm"][0].update(role="baseline")),
    ("experiments: base_kl", live, lambda t: t["outcome"][0].update(kl_from_base=1e-9)),
    ("experiments: same_model", live, lambda t: t["experiment"][0].update(weights_sha256="others")),
    ("experiments: status", live, lambda t: t["experiment"][0].update(status="running")),
    ("experiments: arms_exist", live, lambda t: t["outcome"][-1].update(arm_id=9)),
    ("experiments: arms_exist", suppression, lambda t: t["arm_cost"][1].update(arm_id=9)),
    ("experiments: arms_exist", suppression, lambda t: t["generation"].append(t["generation"][0] | {"arm_id": 9})),
    ("experiments: prompts_exist", live, lambda t: t["outcome"][-2].update(prompt_id=9)),
    ("experiments: prompts_exist", live, lambda t: t["outcome"][-2].update(index=2)),
    ("experiments: prompts_exist", tracing, lambda t: t["effect"][0].update(index=3)),
    ("experiments: prompts_exist", patching, lambda t: t["effect"][0].update(from_prompt_id=9)),
    ("experiments: prompts_exist", saliency, lambda t: t["attribution"][0].update(index=-1)),
    ("experiments: prompt_tokens", live, lambda t: t["prompt_token"].pop()),
    ("experiments: prompt_tokens", live, lambda t: t["prompt_token"][1].update(char_end=8)),
    ("experiments: prompt_tokens", live, lambda t: t["prompt_token"][1].update(char_start=1, char_end=2)),
    ("experiments: outcomes_exist", live, lambda t: t["outcome"].pop(1)),
    ("experiments: outcomes_exist", live, lambda t: t["outcome_token"][0].update(rank=3)),
    ("experiments: outcomes_exist", live, lambda t: t["outcome_token"][1].update(prob=0.75)),
    ("experiments: outcomes_exist", live, lambda t: t["outcome_token"][0].update(token_id=5)),
    ("experiments: generations_exist", suppression, lambda t: t["generation"].pop()),
    ("experiments: generations_exist", suppression, lambda t: t["generation_score"][2].update(is_over=True)),
    ("experiments: score_differences", suppression, lambda t: t["score_difference"][0].update(difference=-0.4)),
    ("experiments: score_differences", suppression, lambda t: t["score_difference"][1].update(n_pairs=5)),
    ("experiments: score_differences", suppression, lambda t: t["score_difference"][2].update(low=0.0, high=-0.5)),
    ("experiments: score_differences", suppression, lambda t: t["score_difference"][3].update(decoding="beam")),
    ("experiments: score_differences", suppression, lambda t: t["score_difference"][4].update(interval_note=None)),
    ("experiments: perplexity", suppression, lambda t: t["arm_cost"][1].update(perplexity=2.0)),
    ("experiments: tokens_named", live, lambda t: t["outcome_token"][1].update(token_id=12)),
    ("experiments: tokens_named", suppression, lambda t: t["generation"][0].update(token_ids=[3, 12])),
    ("experiments: kinds_named", live, lambda t: t["experiment"][0].update(kind="a\x1b[31m")),
    ("experiments: kinds_named", live, lambda t: t["experiment"][0].update(kind="")),
    ("experiments: units", live, lambda t: t["arm_change"][0].update(unit=4)),
    ("experiments: effect_cells", knockout, lambda t: t["effect"][0].update(sources=None)),
    ("experiments: effect_cells", tracing, lambda t: t["effect"][0].update(window=0)),
    ("experiments: completeness", saliency, lambda t: t["attribution"][4].update(attribution=1.0)),
    ("experiments: completeness", saliency, lambda t: t["attribution_total"][1].update(completeness_error=0.04)),
    ("experiments: completeness", saliency, lambda t: t["attribution_total"][2].update(completeness_error=None)),
    ("experiments: completeness", saliency, lambda t: t["attribution_total"].pop()),
    ("experiments.outcome: bounds", live, lambda t: t["outcome"][3].update(top_prob=1.5)),
    ("experiments.outcome: bounds", live, lambda t: t["outcome"][3].update(kl_from_base=-0.5)),
    ("experiments.effect: bounds", tracing, lambda t: t["effect"][0].update(prob=-0.25)),
    ("experiments.effect: range", tracing, lambda t: t["effect"][0].update(layer=3)),
    ("experiments.outcome: finite", live, lambda t: t["outcome"][3].update(entropy=float("nan"))),
    ("experiments.effect: grain", tracing, lambda t: t["effect"].append(cell(0, "ffn_out", 10, 0, 1, 0.5, 0.25, 0.5))),
    ("experiments.arm: interventions", live, lambda t: t["arm"][1].update(sha256="0" * 64)),
    ("experiments.arm: interventions", live, lambda t: t["arm"][1].update(interventions=t["arm"][2]["interventions"])),
    ("experiments.arm: interventions", live, lambda t: t["arm"][1].update(interventions=t["arm"][1]["interventions"].replace(",", ", "))),
    ("experiments.arm: interventions", live, lambda t: t["arm"][1].update(interventions='{"site":"coefficient"}')),
    ("experiments.arm: interventions", live, lambda t: t["arm_change"].pop()),
    ("experiments.arm: interventions", live, lambda t: t["arm_change"][0].update(layer=0)),
    ("experiments.arm: interventions", live, lambda t: t["arm_change"][0].update(is_first_skipped=False)),
    ("experiments.arm: interventions", live, lambda t: t["arm_change"][0].update(positions='"last"')),
    ("experiments.arm: interventions", live, lambda t: t["arm_change"][3].update(value=2.1)),
]


@pytest.fixture(scope="module")
def model(tiny_path: Path) -> Model:
    return model_of(tiny_path)


@pytest.mark.first_cases(12)
@pytest.mark.parametrize(("name", "made", "spoil"), BROKEN)
def test_what_breaks_a_rule_is_not_saved(model: Model, name: str, made: Callable[[], Rows], spoil: Callable[[Rows], Any]) -> None:
    rows = made()
    spoil(rows)
    with closing(open_writer(":memory:")) as con:
        attach_blank(con, EXPERIMENTS)
        with pytest.raises(AtlasError, match=f"the experiment was not saved, for it breaks a rule: .*[(]{name}: "):
            insert_checked_rows(con, 0, arrow(rows), model)


@pytest.mark.thorough
def test_what_is_not_saved_leaves_no_file(path: Path) -> None:
    rows = live()
    rows["outcome"][0].update(kl_from_base=1e-9)
    with pytest.raises(AtlasError, match="it breaks a rule: the base arm is at no distance from itself [(]experiments: base_kl: 1 rows, such as"):
        save(path, arrow(rows))
    assert not EXPERIMENTS.path(path).exists()


def test_every_written_rule_is_broken_above() -> None:
    written = {audit.name for audit in companion_audits(EXPERIMENTS) if audit.name.startswith("experiments: ")}
    assert written == {name for name, _, _ in BROKEN if name.startswith("experiments: ")}


@pytest.mark.thorough
def test_a_value_may_be_as_bfloat16_rounds_it(path: Path) -> None:
    rows = live()
    rows["arm_change"][3].update(value=2.0 * (1 + 2**-9))
    assert save(path, arrow(rows)) == 0


def test_a_value_near_zero_may_be_what_float16_has_next_to_it() -> None:
    asked = (Intervention("coefficient", "set", 1, (0,), Positions("all"), 2.0**-25.5),)
    (row,) = change_rows(asked)
    assert fault(canonical_json(asked), arm_sha256(asked), [row | {"value": 0.0}]) is None
    assert (
        fault(canonical_json(asked), arm_sha256(asked), [row | {"value": 2.0**-24}]) == "the row of rank 1 in arm_change is not the intervention of that rank"
    )


@pytest.mark.thorough
def test_a_former_experiment_that_breaks_a_rule_hinders_no_other_and_verify_finds_it(full_path: Path) -> None:
    rewritten(full_path, "UPDATE experiments.outcome SET top_prob = 2 WHERE experiment_id = 0 AND arm_id = 1")
    assert save(full_path, arrow(tracing())) == 6
    found = CliRunner().invoke(cli, ["verify", "--quiet", str(full_path)])
    assert isinstance(found.exception, AtlasError)
    assert [line for line in found.output.splitlines() if line.startswith("BROKEN")] == [
        "BROKEN  experiments.outcome: bounds: probabilities lie in [0, 1], and what cannot be negative is not"
    ]


def test_the_tiny_experiments_keep_every_rule(full_path: Path) -> None:
    ran = CliRunner().invoke(cli, ["verify", str(full_path)])
    assert ran.exit_code == 0, ran.output
    assert "ok      experiments: base_arm\n" in ran.output
    assert "ok      experiments.arm: interventions\n" in ran.output


ARM = [
    {"site": "resid_post", "layer": 1, "op": "patch", "from": {"prompt_id": 1, "index": 4}, "positions": [4, [6, 9]]},
    {"site": "attention", "layer": 0, "op": "block", "edges": [[8, 2], [8, 3]]},
    {"site": "head", "layer": 1, "units": [1, 0], "op": "zero", "positions": "last"},
    {"site": "coefficient", "layer": 0, "units": "all", "op": "set", "strength": {"times_max": 0.5, "corpus_id": 0}, "positions": "all", "skip_first": True},
]


def test_an_arm_is_read_back_from_its_canonical_json_one_row_a_unit() -> None:
    shape = Shape("tiny", 2, 3, 2, True, False)
    arm = resolve(arm_of(ARM), shape, lambda quantity, layer, neuron, corpus_id: 4.0 + neuron)
    again = resolved_arm(canonical_json(arm))
    assert arm_sha256(again) == arm_sha256(arm)
    cells = [
        (r["rank"], r["site"], r["layer"], r["unit"], r["op"], r["value"], r["strength_kind"], r["positions"], r["is_first_skipped"]) for r in change_rows(arm)
    ]
    assert cells == [
        (1, "attention", 0, 0, "block", None, None, None, False),
        (2, "attention", 0, 1, "block", None, None, None, False),
        (3, "coefficient", 0, 0, "set", 2.0, "times_max", '"all"', True),
        (4, "coefficient", 0, 1, "set", 2.5, "times_max", '"all"', True),
        (5, "coefficient", 0, 2, "set", 3.0, "times_max", '"all"', True),
        (6, "head", 1, 0, "zero", None, None, '"last"', False),
        (7, "head", 1, 1, "zero", None, None, '"last"', False),
        (8, "resid_post", 1, None, "patch", None, None, "[4,[6,9]]", False),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "interventions must be JSON, and these are not"),
        ("{}", "an arm must be a list of at most 100,000 interventions"),
        ("[" * 20, "nested deeper than 8"),
        ('[{"edges":[[8,2]],"layer":0,"op":"block","site":"attention","units":"all"}]', "not resolved: each must have one unit"),
        (
            '[{"layer":1,"op":"zero","positions":"all","site":"attn_out"},{"layer":0,"op":"zero","positions":"all","site":"attn_out"}]',
            "in the order of the forward",
        ),
        ('[{"layer":0,"op":"set","positions":"all","site":"coefficient","strength":{"norm":1.0},"units":[0]}]', "not in canonical JSON"),
    ],
)
def test_other_json_is_no_resolved_arm(text: str, said: str) -> None:
    with pytest.raises(AtlasError, match=said):
        resolved_arm(text)


def test_arguments_name_what_there_is(full_path: Path) -> None:
    with atlas.open(full_path) as a:
        with pytest.raises(AtlasError, match="no experiment 9; available: 0: cats and dogs, 1: where cats sit, "):
            a.knockout(9)
        with pytest.raises(AtlasError, match="no prompt 2 in experiment 0; its prompts are 0: The cat, 1: The dog"):
            a.before_after(0, 2, 1)
        with pytest.raises(AtlasError, match="no arm 5 in experiment 0; its arms are 0: base, 1: L1N0 off, "):
            a.before_after(0, 0, 5)
        with pytest.raises(AtlasError, match="no site 'ffn'; available: embedding, resid_pre, attention, head, "):
            a.causal_trace(1, 0, site="ffn")
        with pytest.raises(AtlasError, match="min_tokens is the number of tokens, and must be at least 1, not 0"):
            a.values_for_concept("cat", min_tokens=0)
