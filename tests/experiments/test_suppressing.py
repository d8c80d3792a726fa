"""An experiment of suppression on a tiny model: resumed to the bit, and each number anew from plain transformers."""

import copy
import itertools
from collections.abc import Iterator
from math import exp
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor

import atlas
from ingest.acting.word_lists import template_prompts
from ingest.experiments import suppressing
from ingest.experiments.base import ExperimentContext as Loaded
from ingest.experiments.costs import report
from ingest.experiments.driver import carry_out, ignore_progress, open_context, plan_experiment
from ingest.experiments.spec import Spec, of_toml, spec_of, to_toml
from schema.errors import AtlasError
from tests.experiments.conftest import World
from tests.experiments.kept import kept, word_lists

torch.set_num_threads(1)

TEXTS = {"a …": ["The first of the people", "The first of the union"], "b …": ["It is a world of", "We hold"], "c …": ["x"]}
N_NEW, ALIKE = 4, 1e-5
DESCRIPTIONS = ("the the:", "of the world and")


@pytest.fixture(scope="module")
def loaded(made: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    with open_context(made.atlas, str(made.tiny.folder), "cpu", ignore_progress) as found:
        yield found


@pytest.fixture(scope="module")
def spec(loaded: Loaded) -> Spec:
    """The concept is what one value promotes, and what is unwanted another."""
    concept, unwanted = word_lists(loaded.con)
    settings = {
        "concept": concept, "unwanted": unwanted, "values": 2, "min_tokens": 2, "strengths": [0.5, 2.0], "samples": 2, "new_tokens": N_NEW, "text_tokens": 60,
        "scorers": ["unwanted-words"], "debiasing": 500.0, "descriptions": list(DESCRIPTIONS),
    }  # fmt: skip
    prompts = [{"text": text, "cluster": cluster} for cluster, texts in TEXTS.items() for text in texts]
    return spec_of({"kind": "suppression", "title": "s", "seed": 5, "settings": settings, "prompts": prompts})


@pytest.fixture(scope="module")
def rows(loaded: Loaded, spec: Spec) -> dict[str, pl.DataFrame]:
    ran = carry_out(loaded, spec, plan_experiment(loaded, spec), ignore_progress)
    assert (ran.n_parts, ran.n_resumed, ran.notes) == (17, 0, {})
    with atlas.open(loaded.path) as a:
        names = ("prompt", "prompt_token", "arm", "arm_change", "generation", "generation_score", "score_difference", "arm_cost", "part")
        found = {
            name: a.sql(f"SELECT * EXCLUDE (experiment_id) FROM experiments.{name} WHERE experiment_id = {ran.experiment_id} ORDER BY ALL") for name in names
        }
        return found | {"table5": a.ask("geva2022_table5", experiment=ran.experiment_id)}


class Stopped(Exception):
    """Somebody ended the process."""


@pytest.mark.long
@pytest.mark.parametrize("at", ["concept × 0.5, 2 of 17", "word filter, 6 of 17"])
def test_one_that_stops_within_an_arm_goes_on_to_the_same_bits(loaded: Loaded, spec: Spec, rows: dict[str, pl.DataFrame], at: str) -> None:
    def stop(what: str, share: float = 0.0) -> None:
        if what == at and share > 0.5:
            raise Stopped

    with pytest.raises(Stopped):
        carry_out(loaded, spec, plan_experiment(loaded, spec), stop)
    ran = carry_out(loaded, spec, plan_experiment(loaded, spec), ignore_progress)
    assert ran.n_resumed == int(at.split(", ")[1].split()[0]) - 1
    assert kept(loaded.path, ran.experiment_id) == kept(loaded.path, 0)


def changes(rows: dict[str, pl.DataFrame], arm_id: int) -> list[tuple[int, int, float]]:
    return rows["arm_change"].filter(arm_id=arm_id).select("layer", "unit", "value").rows()


def logits(made: World, ids: list[int], changed: list[tuple[int, int, float]]) -> Tensor:
    """[seq, d_vocab] float64, of transformers alone, coefficients set by a hook at all indices but 0."""
    model = copy.deepcopy(made.tiny.hf).double()
    for layer, unit, value in changed:

        def put(_module: Any, args: tuple[Tensor], unit: int = unit, value: float = value) -> tuple[Tensor]:
            (x,) = args
            x = x.clone()
            x[:, 1:, unit] = value
            return (x,)

        model.model.layers[layer].mlp.down_proj.register_forward_pre_hook(put)
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0]


def ids_of(made: World, text: str) -> list[int]:
    return [made.tiny.bos, *made.tiny.tokenizer(text, add_special_tokens=False)["input_ids"]]


def test_the_arms_are_a_base_values_switched_on_and_controls_of_their_lengths(rows: dict[str, pl.DataFrame]) -> None:
    roles = rows["arm"]["role"].to_list()
    assert roles == ["base", "treatment", "treatment", "positive_control", "positive_control", "baseline", *["random_control"] * 10, "baseline"]
    assert rows["arm"]["draw"].drop_nulls().to_list() == [0, 1, 2, 3, 4] * 2
    lengths = rows["arm_change"].group_by("arm_id", "layer").agg(pl.col("sub_update_norm").sort())
    of = {(arm, layer): found for arm, layer, found in lengths.rows()}
    for arm, treated in ((6, 1), (10, 1), (11, 2), (15, 2)):
        for (a, layer), found in of.items():
            if a == treated:
                assert of[arm, layer] == pytest.approx(found, rel=1e-5)
    twice = {(k, u): v for k, u, v in changes(rows, 2)}
    assert twice == {(k, u): pytest.approx(4 * v) for k, u, v in changes(rows, 1)}


@pytest.mark.parametrize("arm_id", [0, 1, 4, 8])
def test_what_is_written_greedily_is_what_transformers_says_anew_at_each_step(made: World, rows: dict[str, pl.DataFrame], arm_id: int) -> None:
    found = rows["generation"].filter(arm_id=arm_id, decoding="greedy").sort("prompt_id")["token_ids"].to_list()
    texts = rows["prompt"].sort("prompt_id")["text"].to_list()
    assert len(found) == 5 and all(len(one) == N_NEW for one in found)
    for text, tokens in zip(texts, found, strict=True):
        ids = ids_of(made, text)
        for token in tokens:
            last = logits(made, ids, changes(rows, arm_id))[-1]
            last[0] = -torch.inf
            # logits are float32 there, and of equals either may come first
            assert last[token] > last.max() - ALIKE
            ids.append(token)


def test_each_row_is_drawn_as_it_would_be_alone(loaded: Loaded, spec: Spec, rows: dict[str, pl.DataFrame]) -> None:
    """Its seed is hashed of the experiment's, its sample and its prompt."""
    from ingest.acting.decoding import Decoding
    from ingest.acting.generation import continue_under_arms
    from tests.ingest.acting_oracle import hashed

    drawn = rows["generation"].filter(arm_id=0, decoding="sample")
    assert drawn.height == 10 and drawn["seed"].n_unique() == 10
    how = Decoding("sample", 1.0, 0.95)
    for row in drawn.iter_rows(named=True):
        assert row["seed"] == hashed(hashed(5, row["sample"]), row["prompt_id"])
        ids = torch.tensor([rows["prompt_token"].filter(prompt_id=row["prompt_id"]).sort("index")["token_id"].to_list()])
        (alone,) = continue_under_arms(loaded.model, ids, N_NEW, [], decoding=how, seeds=[row["seed"]], is_exact=True, adjust={}, on_token=lambda *_: None)
        assert list(alone.token_ids) == row["token_ids"]


def windows(made: World, rows: dict[str, pl.DataFrame], loaded: Loaded) -> list[list[int]]:
    """The first 60 tokens of all texts, joined by blank lines, a BOS before each window: as long as the context lets a description stand before it."""
    text = "\n\n".join(text for (text,) in loaded.con.execute("SELECT text FROM document ORDER BY document_id").fetchall())
    ids = made.tiny.tokenizer(text, add_special_tokens=False)["input_ids"][:60]
    n = min(1024, loaded.model.max_context - max(len(made.tiny.tokenizer(one, add_special_tokens=False)["input_ids"]) for one in DESCRIPTIONS)) - 1
    return [[made.tiny.bos, *ids[i : i + n]] for i in range(0, 60, n)]


def test_the_cost_of_an_arm_is_the_loss_of_transformers(made: World, rows: dict[str, pl.DataFrame], loaded: Loaded) -> None:
    cost = {row["arm_id"]: row for row in rows["arm_cost"].iter_rows(named=True)}
    for arm_id in (0, 2, 7):
        nats = [-torch.log_softmax(logits(made, ids, changes(rows, arm_id)), -1)[range(len(ids) - 1), ids[1:]] for ids in windows(made, rows, loaded)]
        every = torch.cat(nats)
        assert cost[arm_id]["n_tokens"] == len(every) == 60
        assert cost[arm_id]["loss"] == pytest.approx(float(every.mean()), abs=1e-5)
        assert cost[arm_id]["perplexity"] == pytest.approx(exp(float(every.mean())), rel=1e-4)
    assert cost[2]["loss"] != pytest.approx(cost[0]["loss"], abs=1e-3)


@pytest.mark.parametrize(("context", "window"), [(4096, 1024), (None, 1024), (1024, 1015), (64, 55)])
def test_a_text_is_read_in_windows_of_1024_tokens_and_of_fewer_where_a_description_leaves_no_room(
    loaded: Loaded, spec: Spec, monkeypatch: pytest.MonkeyPatch, context: int | None, window: int
) -> None:
    """The longer of the descriptions has 9 tokens."""
    assert max(len(loaded.model.tokenizer(one, add_special_tokens=False)["input_ids"]) for one in DESCRIPTIONS) == 9
    monkeypatch.setattr(type(loaded.model), "max_context", context)
    monkeypatch.setattr(suppressing, "text_of", lambda *_: torch.zeros(2500, dtype=torch.long))
    assert plan_experiment(loaded, spec).measured["window"] == window


def forms(made: World, spec: Spec) -> list[tuple[int, ...]]:
    return [tuple(made.tiny.tokenizer("\n" + form, add_special_tokens=False)["input_ids"][1:]) for w in spec.settings.unwanted for form in (w, f" {w}")]


def test_the_costs_of_other_ways_are_those_of_their_distributions(made: World, rows: dict[str, pl.DataFrame], loaded: Loaded, spec: Spec) -> None:
    filtered, debiased = (rows["arm_cost"].filter(arm_id=arm_id).row(0, named=True) for arm_id in (5, 16))
    kept_nats, all_nats = [], []
    for ids in windows(made, rows, loaded):
        others = [ids_of(made, one) + ids[1:] for one in DESCRIPTIONS]
        plain, *described = (torch.softmax(logits(made, one, [])[-len(ids) :], -1).numpy() for one in (ids, *others))
        most = np.max(described, axis=0)
        for i, following in enumerate(ids[1:]):
            p = plain[i].copy()
            for form in forms(made, spec):
                if tuple(ids[: i + 1][len(ids[: i + 1]) - len(form) + 1 :]) == form[:-1]:
                    p[form[-1]] = 0
            if p[following] > 0:
                kept_nats.append(-np.log(p[following] / p.sum()))
            q = plain[i] * np.maximum(np.exp(500 * np.minimum(plain[i] - most[i], 0)), 0.01)
            all_nats.append(-np.log(q[following] / q.sum()))
    assert filtered["n_tokens"] == len(kept_nats) < 60 == debiased["n_tokens"]
    assert filtered["loss"] == pytest.approx(np.mean(kept_nats), abs=1e-5)
    assert debiased["loss"] == pytest.approx(np.mean(all_nats), abs=1e-4)


def test_the_table_is_that_of_its_rows_and_three_templates_give_no_interval(rows: dict[str, pl.DataFrame], spec: Spec) -> None:
    table, of = rows["table5"], rows["generation"].join(rows["generation_score"], on=["arm_id", "prompt_id", "sample"]).join(rows["prompt"], on="prompt_id")
    texts = {row["text"] for row in of.filter(pl.col("score") == 1).iter_rows(named=True)}
    assert texts and all(any(word in text.lower() for word in spec.settings.unwanted) for text in texts)
    of = of.with_columns(over=(pl.col("score") >= 0.5).cast(pl.Float64))
    base = of.filter(arm_id=0).select("prompt_id", "sample", base="over")
    for row in table.iter_rows(named=True):
        mine = of.filter(arm_id=row["arm"], decoding=row["decoding"])
        assert (row["n_continuations"], row["n_clusters"]) == (mine.height, 3)
        assert row["over"] == pytest.approx(mine["over"].mean())
        pairs = [set(itertools.pairwise(ids)) for ids in mine["token_ids"].to_list()]
        assert row["distinct_2"] == pytest.approx(np.mean([len(one) / (N_NEW - 1) for one in pairs]))
        if row["arm"] == 0:
            assert row["over_change"] is None
            continue
        moved = mine.join(base, on=["prompt_id", "sample"]).select(d=pl.col("over") - pl.col("base"))
        assert row["over_change"] == pytest.approx(moved["d"].mean())
        assert (row["over_low"], row["over_high"], row["over_note"]) == (None, None, "none: 3 of at least 12 clusters")
    assert table.height == 17 * 2


def test_the_word_filter_never_writes_a_listed_word(rows: dict[str, pl.DataFrame], made: World, spec: Spec) -> None:
    def n_with_one(arm_id: int) -> int:
        texts = rows["generation"].filter(arm_id=arm_id)["token_ids"].to_list()
        return sum(any(tuple(text[i : i + len(form)]) == form for form in forms(made, spec) for i in range(N_NEW)) for text in texts)

    assert n_with_one(5) == 0 < n_with_one(0)


def test_it_is_asked_with_the_prompts_that_come_with_it_and_repeats_itself(loaded: Loaded, spec: Spec) -> None:
    assert of_toml(to_toml(spec).encode()) == spec
    usual = spec_of({"kind": "suppression", "title": "t"})
    assert usual == spec_of({"kind": "suppression", "title": "t", "prompts": "templates"})
    assert [(one.text, one.cluster) for one in usual.prompts] == template_prompts()
    clusters = {one.cluster for one in usual.prompts}
    assert len(clusters) >= 20 and len(usual.prompts) == 2 * len(clusters) == len({one.text for one in usual.prompts})
    assert "17 parts" in report(plan_experiment(loaded, spec), loaded.model)


def refused(loaded: Loaded, spec: Spec, match: str, prompts: list[dict[str, str]] | None = None, **settings: Any) -> None:
    asked = spec.settings_and_prompts()
    other = {"kind": "suppression", "title": "s", "settings": asked["settings"] | settings, "prompts": prompts or asked["prompts"]}
    with pytest.raises(AtlasError, match=match):
        plan_experiment(loaded, spec_of(other))


def test_what_cannot_be_asked_is_refused_before_anything_is_kept(loaded: Loaded, spec: Spec) -> None:
    refused(loaded, spec, "no value that can be switched on by corpus 0 has 2 tokens of the concept among its 30", concept=["nowhere"])
    refused(loaded, spec, "no value that can be switched on by corpus 0 has 2 tokens of the unwanted words among its 30", unwanted=["nowhere"])
    refused(loaded, spec, "no value that can be switched on by corpus 7", corpus=7)
    refused(loaded, spec, "corpus 7 has no text on which to compute the loss of arms", text=7)
    refused(loaded, spec, "model tiny-llama: 4 new tokens after a prompt of .* are more than its context of 64", descriptions=[])
    refused(loaded, spec, "draws is 4; it must be at least 5", draws=4)
