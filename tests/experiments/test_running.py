"""Experiments of every kind: that they go on where they stopped, repeat to the bit, cost what is said, and keep what plain transformers gives."""

import copy
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from math import log
from pathlib import Path

import duckdb
import polars as pl
import pytest
import torch
from torch import Tensor

import atlas
from atlas.beside.experiments import EXPERIMENTS, store
from atlas.beside.experiments.store import remove
from ingest.experiments.base import ExperimentContext as Loaded
from ingest.experiments.base import PartResult, Progress
from ingest.experiments.cli import spec_in
from ingest.experiments.costs import report, total
from ingest.experiments.driver import ExperimentResult, carry_out, ignore_progress, open_context, plan_experiment
from ingest.experiments.kinds import kinds
from ingest.experiments.spec import Spec, of_toml, spec_of, to_toml
from schema.errors import AtlasError, Locked
from tests.distribution import installed
from tests.experiments.conftest import World
from tests.experiments.kept import kept, specs
from tests.ingest.acting_oracle import by_hand, hashed

torch.set_num_threads(1)

ROOT = Path(__file__).parents[2]

every_kind = pytest.mark.parametrize("kind", sorted(kinds().keys() - {"suppression"}))
"""But the one of a whole corpus, which test_suppressing.py is of."""


@pytest.fixture(scope="module")
def loaded_once(made: World) -> Iterator[Loaded]:
    with open_context(made.atlas, str(made.tiny.folder), "cpu", ignore_progress) as found:
        yield found


@pytest.fixture
def loaded(loaded_once: Loaded, world: World) -> Loaded:
    """Keeps what it does beside the test's own copy of the atlas."""
    return replace(loaded_once, path=world.atlas)


def run_experiment(loaded: Loaded, spec: Spec) -> ExperimentResult:
    return carry_out(loaded, spec, plan_experiment(loaded, spec), ignore_progress)


def plain_logits(world: World, text: str) -> Tensor:
    """[seq, d_vocab] float64, of transformers alone."""
    ids = [world.tiny.bos, *world.tiny.tokenizer(text, add_special_tokens=False)["input_ids"]]
    return by_hand(copy.deepcopy(world.tiny.hf).double(), torch.tensor(ids), [])


def token(world: World, text: str) -> int:
    (found,) = world.tiny.tokenizer(text, add_special_tokens=False)["input_ids"]
    return found


class Stopped(Exception):
    """Somebody ended the process."""


def stop_within_the_second(what: str, share: float = 0.0) -> None:
    if what.endswith("2 of 2") and share > 0:
        raise Stopped


@pytest.mark.ci_cases(1)
@pytest.mark.thorough
@every_kind
def test_one_that_stops_anywhere_goes_on_and_its_file_repeats_it_to_the_bit(world: World, loaded: Loaded, kind: str) -> None:
    spec = spec_of(specs(world)[kind])
    plan = plan_experiment(loaded, spec)
    whole = carry_out(loaded, spec, plan, ignore_progress)
    assert (whole.n_parts, whole.n_resumed) == (2, 0) == (len(plan.parts), 0)

    with pytest.raises(Stopped):
        carry_out(loaded, spec, plan, stop_within_the_second)
    with atlas.open(world.atlas) as a:
        assert a.sql("SELECT status, finished_at IS NULL FROM experiments.experiment ORDER BY experiment_id").rows() == [("finished", False), ("running", True)]
    told: list[str] = []
    resumed = carry_out(loaded, spec, plan_experiment(loaded, spec), lambda what, share=0.0: told.append(what))
    assert (resumed.experiment_id, resumed.n_resumed) == (1, 1)
    assert {what.rsplit(", ", 1)[1] for what in told} == {"2 of 2"}
    again = run_experiment(loaded, of_toml(to_toml(spec_in(world.atlas, 1)).encode()))
    assert again.experiment_id == 2
    first, *others = (kept(world.atlas, i) for i in range(3))
    assert others == [first, first]
    assert first["effect"] or first["attribution"]


KILLED = """
import os, signal, sys, torch
from pathlib import Path

torch.set_num_threads(1)
from ingest.experiments.driver import run
from ingest.experiments.spec import read_file

def tell(what, share=0.0):
    if what.endswith("2 of 2") and share > 0:
        os.kill(os.getpid(), signal.SIGKILL)

run(sys.argv[1], read_file(Path(sys.argv[2])), model=sys.argv[3], tell=tell)
"""


@pytest.mark.thorough
def test_a_process_that_is_killed_leaves_what_another_goes_on_with(world: World, loaded: Loaded, tmp_path: Path) -> None:
    spec, file = spec_of(specs(world)["knockout"]), tmp_path / "knockout.toml"
    file.write_text(to_toml(spec), encoding="utf-8")
    ran = subprocess.run([sys.executable, "-c", KILLED, str(world.atlas), str(file), str(world.tiny.folder)], capture_output=True, cwd=ROOT, check=False)
    assert ran.returncode == -signal.SIGKILL, ran.stderr.decode()
    assert (found := run_experiment(loaded, spec)).experiment_id == 0 and found.n_resumed == 1
    assert run_experiment(loaded, spec).experiment_id == 1
    assert kept(world.atlas, 0) == kept(world.atlas, 1)


@pytest.mark.thorough
def test_two_that_compute_the_same_experiment_say_so(world: World, loaded: Loaded) -> None:
    """The second comes when the first is at its first part, and is ahead of it then."""
    spec = spec_of(specs(world)["knockout"])
    plan, n_others = plan_experiment(loaded, spec), 0

    def meanwhile(what: str, share: float = 0.0) -> None:
        nonlocal n_others
        if share and not n_others:
            n_others = 1
            assert run_experiment(loaded, spec).experiment_id == 0

    with pytest.raises(AtlasError, match="part 0 of experiment 0 is there already: another process computes the same experiment") as said:
        carry_out(loaded, spec, plan, meanwhile)
    assert "\n" not in str(said.value)
    with atlas.open(world.atlas) as a:
        assert a.experiment_summary()["status"].to_list() == ["finished"]


@pytest.mark.first_cases(0)
@pytest.mark.parametrize(("failing", "said", "left"), [(0, "nothing is kept", []), (1, "the same command continues after them", ["running"])])
def test_a_part_that_fails_says_what_is_kept(world: World, loaded: Loaded, failing: int, said: str, left: list[str]) -> None:
    """Nothing that never came to a part is left as if it ran."""
    spec = spec_of(specs(world)["knockout"])
    plan = plan_experiment(loaded, spec)

    def fail(_: Progress) -> PartResult:
        raise RuntimeError("no room\nat all")

    parts = [replace(part, compute=fail) if i == failing else part for i, part in enumerate(plan.parts)]
    with pytest.raises(AtlasError, match=rf"^prompt {failing} could not be computed \(RuntimeError: no room at all\); .*{said}"):
        carry_out(loaded, spec, replace(plan, parts=parts), ignore_progress)
    with atlas.open(world.atlas) as a:
        assert a.experiment_summary()["status"].to_list() == left
    assert carry_out(loaded, spec, plan, ignore_progress).n_resumed == failing


@pytest.mark.thorough
def test_a_first_part_that_fails_takes_away_nothing_that_another_process_has_added(world: World, loaded: Loaded) -> None:
    """The other finds the experiment begun, and does the same part while this one is at it."""
    spec = spec_of(specs(world)["knockout"])
    plan = plan_experiment(loaded, spec)

    def fail(_: Progress) -> PartResult:
        with pytest.raises(Stopped):
            carry_out(loaded, spec, plan, stop_within_the_second)
        raise RuntimeError("no room")

    with pytest.raises(AtlasError, match=r"RuntimeError: no room\); experiment 0 is kept, since another process has added to it$"):
        carry_out(loaded, spec, replace(plan, parts=[replace(plan.parts[0], compute=fail), *plan.parts[1:]]), ignore_progress)
    assert (resumed := run_experiment(loaded, spec)).experiment_id == 0 and resumed.n_resumed == 1
    assert run_experiment(loaded, spec).experiment_id == 1
    assert kept(world.atlas, 0) == kept(world.atlas, 1)


@pytest.mark.thorough
def test_what_was_removed_while_it_was_computed_is_not_added_to_what_has_its_id(world: World, loaded: Loaded) -> None:
    spec, other = (spec_of(specs(world)[kind]) for kind in ("knockout", "tracing"))
    plan, of_other = plan_experiment(loaded, spec), plan_experiment(loaded, other)

    def meanwhile(what: str, share: float = 0.0) -> None:
        if share and not EXPERIMENTS.path(world.atlas).with_name("once").exists():
            EXPERIMENTS.path(world.atlas).with_name("once").touch()
            remove(world.atlas, 0)
            with pytest.raises(Stopped):
                carry_out(loaded, other, of_other, stop_within_the_second)

    with pytest.raises(AtlasError, match="experiment 0 was removed while it was computed, and another has its id: run the same command again"):
        carry_out(loaded, spec, plan, meanwhile)
    assert carry_out(loaded, other, of_other, ignore_progress).experiment_id == 0
    assert carry_out(loaded, spec, plan, ignore_progress).experiment_id == 1


def test_why_a_first_part_failed_is_said_also_where_nothing_can_be_removed(world: World, loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of(specs(world)["knockout"])
    plan = plan_experiment(loaded, spec)

    def fail(_: Progress) -> PartResult:
        raise RuntimeError("no room")

    def refuse(*_: object) -> bool:
        raise Locked("in use")

    monkeypatch.setattr(store, "remove_if_bare", refuse)
    with pytest.raises(AtlasError, match=r"RuntimeError: no room\); experiment 0 has begun, and it is unknown whether a part of it is kept \(in use\)$"):
        carry_out(loaded, spec, replace(plan, parts=[replace(plan.parts[0], compute=fail), *plan.parts[1:]]), ignore_progress)


@pytest.mark.thorough
def test_another_seed_or_setting_is_another_experiment(world: World, loaded: Loaded) -> None:
    asked = specs(world)["tracing"]

    def stop_at_once(what: str, share: float = 0.0) -> None:
        if share:
            raise Stopped

    for changes in ({}, {"seed": 4}, {"settings": {"draws": 1}}, {"title": "u"}):
        spec = spec_of(asked | changes)
        with pytest.raises(Stopped):
            carry_out(loaded, spec, plan_experiment(loaded, spec), stop_at_once)
    with atlas.open(world.atlas) as a:
        assert a.sql("SELECT count(*) FROM experiments.experiment").item() == 4


@pytest.mark.ci_cases(2)
@pytest.mark.first_cases(1)
@every_kind
def test_the_cost_that_is_told_is_what_is_read(world: World, loaded: Loaded, kind: str) -> None:
    spec = spec_of(specs(world)[kind])
    plan, model = plan_experiment(loaded, spec), loaded.model
    read, in_layers, handles = [0], [0], []
    handles.append(model.backbone_module.register_forward_pre_hook(lambda _m, a, k: read.append(len(a[0] if a else k["input_ids"])), with_kwargs=True))
    blocks = [model.layer_module(layer, "mlp") for layer in range(model.n_layers)]
    handles += [block.register_forward_hook(lambda _m, _a, out: in_layers.append(out.shape[0] * out.shape[1])) for block in blocks]
    carry_out(loaded, spec, plan, ignore_progress)
    for handle in handles:
        handle.remove()
    cost = total(plan)
    if kind == "saliency":
        assert plan.is_most and sum(read) <= cost.n_forwards and sum(in_layers) / model.n_layers <= cost.n_tokens
        return
    assert (sum(read), sum(in_layers) / model.n_layers) == (cost.n_forwards, pytest.approx(cost.n_tokens))
    said = report(plan, model)
    assert said.startswith(f"2 parts, {cost.n_forwards:,} forward passes, the work of ") and said.endswith("minutes, from forward passes measured here")


@pytest.mark.thorough
def test_tracing_keeps_what_noise_takes_and_tells_the_subjects_tokens_apart(world: World, loaded: Loaded) -> None:
    spec = spec_of(specs(world)["tracing"])
    run_experiment(loaded, spec)
    hf, tokenizer = copy.deepcopy(world.tiny.hf).double(), world.tiny.tokenizer
    with atlas.open(world.atlas) as a:
        tokens = a.sql(
            "SELECT p.text, p.answer_token_id, t.* FROM experiments.prompt AS p JOIN experiments.prompt_token AS t USING (prompt_id) "
            "ORDER BY t.prompt_id, t.index"
        )
        effects = a.sql("FROM experiments.effect")
        averages = a.ask("indirect_effects", experiment=0)
    subjects = []
    for place, one in enumerate(spec.prompts):
        own, start = tokens.filter(prompt_id=place), one.text.index(one.subject)
        assert own["token_id"].to_list() == [0, *tokenizer(one.text, add_special_tokens=False)["input_ids"]]
        held = [
            row["index"]
            for row in own.rows(named=True)
            if row["char_end"] > row["char_start"] and row["char_start"] < start + len(one.subject) and row["char_end"] > start
        ]
        roles = ["other"] * held[0] + ["subject_first", *["subject_middle"] * (len(held) - 2), "subject_last"]
        assert own["role"].to_list() == [*roles, *["after_subject"] * (len(own) - len(roles) - 1), "last"]
        assert len(held) > 2
        subjects.append((own["token_id"].to_list(), held, own["answer_token_id"][0]))
    weights = hf.get_input_embeddings().weight
    deviation = 3 * torch.cat([weights[[ids[i] for i in held]] for ids, held, _ in subjects]).std()
    for place, (ids, held, answer) in enumerate(subjects):
        clean = by_hand(hf, torch.tensor(ids), [])[-1].softmax(-1)[answer]
        corrupted = []
        for draw in range(2):
            noise = {t: torch.randn(weights.shape[1], generator=torch.Generator().manual_seed(hashed(hashed(3, draw), t))).double() for t in held}
            corrupted.append(float(noised(hf, ids, {t: deviation * x for t, x in noise.items()})[answer]))
        mine = effects.filter(prompt_id=place)
        assert mine["total_effect"].unique().to_list() == [pytest.approx(float(clean) - sum(corrupted) / 2, abs=1e-5)]
        assert set(mine["layer"]) == {0, 2} and set(mine["window"].unique()) == {1, 2} and set(mine["site"]) == {"resid_post", "attn_out", "ffn_out"}
    joined = (
        effects.join(tokens, on=["prompt_id", "index"])
        .group_by("site", "layer", "role", "prompt_id")
        .agg(pl.mean("effect"))
        .group_by("site", "layer", "role")
        .agg(pl.mean("effect"))
    )
    wanted = {(row["site"], row["layer"], row["role"]): row["effect"] for row in joined.rows(named=True)}
    assert {role for _, _, role in wanted} == {"other", "subject_first", "subject_middle", "subject_last", "after_subject", "last"}
    assert {(row["site"], row["layer"], row["role"]): row["effect"] for row in averages.rows(named=True)} == pytest.approx(wanted, abs=1e-6)


def noised(hf: torch.nn.Module, ids: list[int], more: dict[int, Tensor]) -> Tensor:
    """Next-token probabilities with something added to what the embedding gives."""
    x = hf.get_input_embeddings()(torch.tensor([ids])).clone()
    for t, noise in more.items():
        x[0, t] += noise
    with torch.inference_mode():
        return hf(inputs_embeds=x).logits[0, -1].softmax(-1)


def test_knockout_patching_and_saliency_are_of_the_prompts_and_answers_that_were_given(world: World, loaded: Loaded) -> None:
    found = specs(world)
    for kind in ("knockout", "patching", "saliency"):
        run_experiment(loaded, spec_of(found[kind]))
    with atlas.open(world.atlas) as a:
        knockouts, patched, totals = (
            a.sql(f"FROM experiments.{table} WHERE experiment_id = {i}") for i, table in enumerate(("effect", "effect", "attribution_total"))
        )
        base = a.sql("SELECT role, interventions::TEXT FROM experiments.arm").unique().rows()
        measured = a.sql("SELECT settings->'measured'->>'baseline_token_id' FROM experiments.experiment WHERE experiment_id = 2").item()
    assert base == [("base", "[]")] and int(measured) == world.tiny.tokenizer.eos_token_id
    for place, one in enumerate(found["knockout"]["prompts"]):
        clean = float(plain_logits(world, one["text"])[-1].softmax(-1)[token(world, one["answer"])])
        mine = knockouts.filter(prompt_id=place)
        assert (mine["prob"] / (1 + mine["effect"])).to_list() == pytest.approx([clean] * len(mine), rel=1e-3)
        assert set(mine["sources"]) == {"subject", "non_subject", "last"} and set(mine["window"]) == {2} and set(mine["index"]) == {None}
    (pair,) = found["patching"]["prompts"]
    answer, foil = (token(world, pair[name]) for name in ("answer", "foil"))
    clean, corrupted = (float(logits[-1, answer] - logits[-1, foil]) for logits in (plain_logits(world, pair[name]) for name in ("text", "corrupted")))
    for acted, total_effect in ((1, clean - corrupted), (0, corrupted - clean)):
        mine = patched.filter(prompt_id=acted)
        assert set(mine["from_prompt_id"]) == {1 - acted}
        assert mine["total_effect"].to_list() == pytest.approx([total_effect] * len(mine), abs=1e-4)
        # the last state of the last layer is all there is to the prediction
        end = mine.filter(site="resid_post", layer=2, index=mine["index"].max())
        assert end["effect"].item() == pytest.approx(1, abs=1e-4)
    (text,) = found["saliency"]["prompts"]
    logits = plain_logits(world, text["text"])[-1]
    best = float(logits.softmax(-1).max())
    assert int(logits.argmax()) == token(world, text["answer"])
    assert totals.filter(score="prob")["at_input"].to_list() == pytest.approx([best] * 3, rel=1e-4)
    two = logits.topk(2).values
    assert totals.filter(score="logit_difference")["at_input"].to_list() == pytest.approx([float(two[0] - two[1])] * 3, rel=1e-3)
    assert log(best) < 0 and set(totals["method"]) == {"gradient_input", "integrated_gradients", "occlusion"}


@pytest.mark.thorough
def test_a_prompt_that_is_answered_otherwise_is_kept_with_what_the_model_says(world: World, loaded: Loaded) -> None:
    asked = specs(world)["tracing"]
    asked["prompts"][1]["answer"] = "of"
    ran = run_experiment(loaded, spec_of(asked))
    assert list(ran.notes) == ["prompt 1"]
    assert ran.notes["prompt 1"].startswith('the model does not answer "of": it continues with "')
    with atlas.open(world.atlas) as a:
        assert a.sql("SELECT part, name, note FROM experiments.part ORDER BY part").rows() == [(0, "prompt 0", None), (1, "prompt 1", ran.notes["prompt 1"])]
        assert a.sql("SELECT DISTINCT prompt_id FROM experiments.effect").rows() == [(0,)]
        assert a.sql("SELECT count(*) FROM experiments.prompt").item() == 2


def test_noise_at_index_0_is_noted(world: World, loaded: Loaded) -> None:
    asked = specs(world)["knockout"]
    text = asked["prompts"][0]["text"]
    loaded = replace(loaded, bos="never")
    top = int(loaded.model.hf(torch.tensor([world.tiny.tokenizer(text, add_special_tokens=False)["input_ids"]])).logits[0, -1].argmax())
    prompts = [{"text": text, "subject": "The", "answer": world.tiny.tokenizer.decode([top])}]
    ran = run_experiment(loaded, spec_of({"kind": "tracing", "title": "0", "settings": {"draws": 1, "every": 3}, "prompts": prompts}))
    assert ran.notes == {"prompt 0": "the noise covers index 0, where many models keep a state that no single restored state brings back"}


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("tracing", {"answer": None}, r'prompt 0: it has no answer; the model continues with ".+" \(\d\.\d\d\), .+: give one'),
        ("tracing", {"answer": "of"}, r'the model answers none of the 1 prompts as given; prompt 0: the model does not answer "of": it continues with "'),
        ("tracing", {"subject": "cat"}, 'prompt 0: its text does not contain the subject "cat": "The people of the union of the world is"'),
        ("tracing", {"text": "", "subject": ""}, "prompt 0: the prompt is empty: give it some text"),
        ("knockout", {"subject": "world is"}, "prompt 0: the subject is positions .*; knockout needs one that ends before the last position, "),
        ("patching", {"answer": "the people"}, r'prompt 0: the answer "the people" is \d+ tokens \(.*\); give a text of a single token'),
        ("patching", {"foil": None}, "prompt 0: it has no answer; the model continues with "),
        (
            "patching",
            {"corrupted": "The world"},
            r"prompt 0: its texts have \d+ and \d+ tokens; patching replaces states position by position: give equal lengths",
        ),
        ("saliency", {"answer": None}, "prompt 0: it has no answer; the model continues with "),
    ],
)
def test_what_cannot_be_asked_of_this_model_is_refused_before_anything_is_kept(
    world: World, loaded: Loaded, kind: str, changes: dict[str, str | None], message: str
) -> None:
    asked = specs(world)[kind]
    changed = {name: value for name, value in (asked["prompts"][0] | changes).items() if value is not None}
    with pytest.raises(AtlasError, match=message) as refused:
        plan_experiment(loaded, spec_of(asked | {"prompts": [changed]}))
    assert "\n" not in str(refused.value)
    assert not EXPERIMENTS.path(world.atlas).exists()


def test_a_baseline_of_several_tokens_is_refused(world: World, loaded: Loaded) -> None:
    with pytest.raises(AtlasError, match='the baseline "people of the world" is 11 tokens'):
        plan_experiment(loaded, spec_of(specs(world)["saliency"] | {"settings": {"baseline": "people of the world"}}))


@pytest.mark.thorough
def test_a_kind_of_another_distribution_is_listed_run_and_kept(world: World, loaded: Loaded, tmp_path: Path) -> None:
    with installed(tmp_path, {"activation_atlas.experiment_kinds": {"resalience": "tests.experiments.resalience:KIND"}}):
        kinds.cache_clear()
        ran = run_experiment(loaded, spec_of(specs(world)["saliency"] | {"kind": "resalience"}))
    with installed(tmp_path / "again", {"activation_atlas.experiment_kinds": {"again": "tests.experiments.resalience:TWICE"}}):
        kinds.cache_clear()
        with pytest.raises(AtlasError, match="'saliency' is brought twice, by activation-atlas itself and by the entry point again"):
            kinds()
    kinds.cache_clear()
    with atlas.open(world.atlas) as a:
        assert a.sql("SELECT kind, status FROM experiments.experiment").rows() == [("resalience", "finished")]
    assert kept(world.atlas, ran.experiment_id)["attribution"]
    with pytest.raises(AtlasError, match="kind 'resalience' is unknown; there are knockout, patching, saliency, suppression, tracing"):
        spec_of(specs(world)["saliency"] | {"kind": "resalience"})


def test_every_kind_has_defaults_and_takes_its_own_example() -> None:
    for name, kind in kinds().items():
        kind.settings()
        assert kind.name == name and kind.example.startswith(f"atlas experiment {name} ")


@pytest.mark.thorough
def test_settings_that_somebody_sent_and_that_are_too_deep_are_said(world: World, loaded: Loaded) -> None:
    run_experiment(loaded, spec_of(specs(world)["saliency"]))
    with closing(duckdb.connect(EXPERIMENTS.path(world.atlas))) as con:
        con.execute("UPDATE experiment SET settings = repeat('[', 200000) || repeat(']', 200000)")
    with pytest.raises(AtlasError, match="the settings of experiment 0 are nested too deeply to be read"):
        spec_in(world.atlas, 0)
