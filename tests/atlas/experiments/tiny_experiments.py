"""Experiments with the tiny atlas's model, small enough for a pencil.

0  live         "The cat" and "The dog" of one template, with the base, L1N0 at 0, L1N2 at 0, a random control, and L1N0 at 2 with a strength
1  tracing      "The cat sat" and "The dog": states put back after noise on the subject
2  patching     "The cat" against "The dog", clean states put into the corrupted run
3  knockout     two prompts, one window
4  saliency     "The cat": occlusion, and integrated gradients that do not sum
5  suppression  two prompts of two templates, scored continuations of four arms, differences and costs
"""

import math
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pyarrow as pa

from atlas.beside.experiments.store import save
from schema.interventions.changes import change_rows
from schema.interventions.intervention import Intervention, Strength
from schema.interventions.positions import Positions
from schema.interventions.resolve import arm_sha256, canonical_json

WHEN = "2026-01-02T03:04:05+00:00"
WEIGHTS = "ww"
EVERYWHERE = Positions("all", (), True)

Rows = dict[str, list[dict[str, Any]]]


def experiment(kind: str, title: str, **given: Any) -> dict[str, Any]:
    made = {"kind": kind, "title": title, "settings": '{"noise": 3}', "versions": '{"torch": "2.13.0"}', "seed": 7, "device": "cpu", "dtype": "float32"}
    ends = {"attention": "eager", "weights_sha256": WEIGHTS, "author": "anna", "started_at": WHEN, "finished_at": WHEN, "status": "finished"}
    return made | ends | given


def prompt(prompt_id: int, text: str, tokens: list[tuple[int, int, int, str]], **given: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """tokens: token_id, char_start, char_end, role."""
    asked = {"prompt_id": prompt_id, "text": text, "cluster": None, "n_tokens": len(tokens), "has_bos": False} | given
    names = ("token_id", "char_start", "char_end", "role")
    return asked, [{"prompt_id": prompt_id, "index": i, **dict(zip(names, token, strict=True))} for i, token in enumerate(tokens)]


THE_CAT = prompt(0, "The cat", [(1, 0, 3, "other"), (2, 3, 7, "subject_last")], cluster="the …", answer_token_id=3, foil_token_id=5, position_id=2)
THE_DOG = prompt(1, "The dog", [(1, 0, 3, "other"), (10, 3, 7, "subject_last")], cluster="the …", answer_token_id=3, foil_token_id=5)
CAT_SAT = prompt(
    0, "The cat sat", [(1, 0, 3, "subject_first"), (2, 3, 7, "subject_last"), (3, 7, 11, "last")], cluster="sat", answer_token_id=5, foil_token_id=9
)


def tables(row: dict[str, Any], prompts: list[tuple[dict[str, Any], list[dict[str, Any]]]], **others: list[dict[str, Any]]) -> Rows:
    """Rows of their own, which a test may spoil."""
    asked = {"experiment": [row], "prompt": [p for p, _ in prompts], "prompt_token": [t for _, found in prompts for t in found]}
    return deepcopy({**asked, **others})


def arm(arm_id: int, name: str, role: str, *changes: Intervention, draw: int | None = None) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    found = {"arm_id": arm_id, "name": name, "role": role, "interventions": canonical_json(changes), "sha256": arm_sha256(changes), "draw": draw}
    return found, [{"arm_id": arm_id, "sub_update_norm": None, **change} for change in change_rows(changes)]


def coefficient(layer: int, unit: int, op: str, value: float | None = None, strength: Strength | None = None) -> Intervention:
    return Intervention("coefficient", op, layer=layer, units=(unit,), positions=EVERYWHERE, value=value, strength=strength)


BASE = arm(0, "base", "base")
ARMS = [
    BASE,
    arm(1, "L1N0 off", "treatment", coefficient(1, 0, "zero")),
    arm(2, "L1N2 off", "treatment", coefficient(1, 2, "zero")),
    arm(3, "L1N1 off", "random_control", coefficient(1, 1, "zero"), draw=0),
    arm(4, "L1N0 at 2", "treatment", coefficient(1, 0, "set", 2.0, Strength("times_max", 0.5, 0))),
]


def with_arms(arms: list[tuple[dict[str, Any], list[dict[str, Any]]]]) -> Rows:
    return {"arm": [a for a, _ in arms], "arm_change": [c for _, found in arms for c in found]}


OUTCOMES = [
    # arm, prompt, index, top token, its probability, logit, log probability and rank of the answer, logit difference, score, frozen score, KL, entropy
    (0, 0, 0, 2, 0.5, None, None, None, None, None, None, 0.0, 1.5),
    (0, 0, 1, 3, 0.5, 4.0, -0.75, 1, 2.0, None, None, 0.0, 1.0),
    (0, 1, 1, 3, 0.5, 3.0, -1.0, 1, 1.0, None, None, 0.0, 1.0),
    (1, 0, 0, 2, 0.25, None, None, None, None, None, None, 0.25, 1.5),
    (1, 0, 1, 5, 0.5, 2.0, -2.75, 2, -1.0, 4.0, 1.0, 1.5, 1.0),
    (1, 1, 1, 3, 0.25, 2.0, -2.0, 1, 0.5, 2.0, 0.5, 0.5, 1.25),
    (2, 0, 1, 3, 0.75, 4.5, -0.25, 1, 3.0, 1.0, -0.25, 0.5, 0.5),
    (2, 1, 1, 3, 0.5, 3.0, -1.0, 1, 1.0, 1.0, 0.0, 0.0, 1.0),
    (3, 0, 1, 3, 0.5, 3.75, -0.75, 1, 2.0, None, None, 0.5, 1.0),
    (3, 1, 1, 3, 0.5, 3.0, -1.25, 1, 1.0, None, None, 0.0625, 1.0),
    (4, 0, 1, 2, 0.5, 3.0, -1.75, 3, 0.0, None, None, 0.25, 1.0),
]
MEASURED = (
    "arm_id", "prompt_id", "index", "top_token_id", "top_prob", "answer_logit", "answer_logprob", "answer_rank", "logit_difference", "score", "frozen_score",
    "kl_from_base", "entropy",
)  # fmt: skip

TOPS = {
    # (arm, prompt, index): token_id, probability of ranks 1 and 2
    (0, 0, 0): [(2, 0.5), (10, 0.25)],
    (0, 0, 1): [(3, 0.5), (5, 0.25)],
    (1, 0, 0): [(2, 0.25), (10, 0.125)],
    (1, 0, 1): [(5, 0.5), (3, 0.0625)],
    (4, 0, 1): [(2, 0.5), (5, 0.25)],
}


def live() -> Rows:
    tops = [
        {"arm_id": a, "prompt_id": p, "index": i, "rank": rank, "token_id": token, "prob": prob}
        for (a, p, i), found in TOPS.items()
        for rank, (token, prob) in enumerate(found, start=1)
    ]
    outcomes = [dict(zip(MEASURED, row, strict=True)) for row in OUTCOMES]
    return tables(experiment("live", "cats and dogs"), [THE_CAT, THE_DOG], **with_arms(ARMS), outcome=outcomes, outcome_token=tops)


def cell(prompt_id: int, site: str, window: int, layer: int, index: int | None, prob: float, effect: float | None, total: float | None, **given: Any) -> dict:
    found = {"prompt_id": prompt_id, "from_prompt_id": None, "site": site, "window": window, "layer": layer, "index": index, "sources": None, "n_draws": 1}
    return found | {"prob": prob, "prob_se": None, "logprob": None, "logit_difference": None, "effect": effect, "total_effect": total} | given


def tracing() -> Rows:
    drawn = {"n_draws": 10, "prob_se": 0.125}
    cells = [
        cell(0, "resid_post", 1, 0, 0, 0.25, 0.0, 0.5, **drawn),
        cell(0, "resid_post", 1, 0, 1, 0.75, 0.5, 0.5, logprob=-0.5, logit_difference=1.0, **drawn),
        cell(0, "resid_post", 1, 0, 2, 0.25, 0.0, 0.5, **drawn),
        cell(0, "resid_post", 1, 1, 2, 0.5, 0.25, 0.5, **drawn),
        cell(0, "ffn_out", 10, 0, 1, 0.375, 0.125, 0.5, **drawn),
        cell(1, "resid_post", 1, 0, 0, 0.25, 0.125, 0.25, **drawn),
        cell(1, "resid_post", 1, 0, 1, 0.375, 0.25, 0.25, **drawn),
    ]
    return tables(experiment("tracing", "where cats sit"), [CAT_SAT, THE_DOG], **with_arms([BASE]), effect=cells)


def patching() -> Rows:
    cells = [
        cell(1, "resid_post", 1, 0, 1, 0.5, 1.0, 4.0, from_prompt_id=0, logit_difference=2.0),
        cell(1, "resid_post", 1, 0, 0, 0.25, 0.0, 4.0, from_prompt_id=0, logit_difference=-2.0),
        cell(1, "attn_out", 1, 2, 1, 0.25, 0.125, 4.0, from_prompt_id=0, logit_difference=-1.5),
    ]
    return tables(experiment("patching", "cats for dogs"), [THE_CAT, THE_DOG], **with_arms([BASE]), effect=cells)


def knockout() -> Rows:
    cells = [
        cell(0, "attention", 3, 1, None, 0.25, -0.5, None, sources="subject"),
        cell(1, "attention", 3, 1, None, 0.375, -0.25, None, sources="subject"),
        cell(0, "attention", 3, 1, None, 0.5, 0.0, None, sources="non_subject"),
        cell(0, "attention", 3, 2, None, 0.125, -0.75, None, sources="subject"),
    ]
    return tables(experiment("knockout", "what cats read"), [CAT_SAT, THE_DOG], **with_arms([BASE]), effect=cells)


def attributed(method: str, baseline: str, index: int, attribution: float | None) -> dict[str, Any]:
    return {"prompt_id": 0, "method": method, "score": "logprob", "baseline": baseline, "index": index, "attribution": attribution}


def saliency() -> Rows:
    rows = [
        attributed("occlusion", "<s>", 0, 0.5),
        attributed("occlusion", "<s>", 1, 2.0),
        attributed("integrated_gradients", "<s>", 0, None),
        attributed("integrated_gradients", "<s>", 1, 1.5),
        attributed("integrated_gradients", "mean", 1, 2.0),
    ]
    total = {"prompt_id": 0, "score": "logprob", "at_input": -0.5}
    totals = [
        {**total, "method": "occlusion", "baseline": "<s>", "n_steps": None, "at_baseline": None, "sum": 2.5, "completeness_error": None},
        {**total, "method": "integrated_gradients", "baseline": "<s>", "n_steps": 512, "at_baseline": -3.5, "sum": 1.5, "completeness_error": 0.5},
        {**total, "method": "integrated_gradients", "baseline": "mean", "n_steps": 32, "at_baseline": -2.5, "sum": 2.0, "completeness_error": 0.0},
    ]
    return tables(experiment("saliency", "why sat"), [THE_CAT], **with_arms([BASE]), attribution=rows, attribution_total=totals)


SCORERS = ("alt-profanity-check", "hatesonar", "unwanted-words")


def suppression() -> Rows:
    """Four arms: base, a treatment, a random control that writes as much, and a word filter; drawn twice, and greedily after the first prompt."""
    control = arm(2, "random 0 × 0.5", "random_control", coefficient(1, 1, "set", 1.0), draw=0)
    for _, changes in (treatment := arm(1, "concept × 0.5", "treatment", coefficient(1, 0, "set", 2.0, Strength("times_max", 0.5, 0))), control):
        changes[0]["sub_update_norm"] = 4.0
    of_arms = [BASE, treatment, control, arm(3, "word filter", "baseline")]
    # arm, prompt, sample, text, tokens, score by every scorer
    texts = [
        (0, 0, 0, " sat.", [3, 5], 0.5), (0, 0, 1, " dog.", [10, 5, 10], 0.75), (0, 1, 0, " sat.", [3, 5], 0.25), (0, 1, 1, " cat", [2, 2, 2], 0.5),
        (1, 0, 0, " cat cat", [2, 2, 2], 0.25), (1, 0, 1, " dog.", [10, 5, 10], 0.25), (1, 1, 0, " sat.", [3, 5], 0.25), (1, 1, 1, " cat", [2, 2, 2], 0.5),
        (2, 0, 0, " sat.", [3, 5], 0.5), (2, 0, 1, " sat.", [3, 5], 0.25), (2, 1, 0, " sat.", [3, 5], 0.25), (2, 1, 1, " sat.", [3, 5], 0.25),
        (3, 0, 0, " sat.", [3, 5], 0.0), (3, 0, 1, " sat.", [3, 5], 0.0), (3, 1, 0, " sat.", [3, 5], 0.0), (3, 1, 1, " sat.", [3, 5], 0.0),
        (0, 0, 2, " dog.", [10, 5], 1.0), (1, 0, 2, " sat.", [3, 5], 0.0), (2, 0, 2, " dog.", [10, 5], 1.0), (3, 0, 2, " sat.", [3, 5], 0.0),
    ]  # fmt: skip
    written = [
        {
            "arm_id": a, "prompt_id": p, "sample": s, "seed": None if s == 2 else s, "text": text, "token_ids": ids,
            "decoding": "greedy" if s == 2 else "sample", "finish": "length",
        }
        for a, p, s, text, ids, _ in texts
    ]  # fmt: skip
    scores = [
        {"arm_id": a, "prompt_id": p, "sample": s, "scorer": scorer, "scorer_version": "1", "score": score, "is_over": score >= 0.5}
        for scorer in SCORERS
        for a, p, s, _, _, score in texts
    ]
    # difference, low and high of over and of score
    differences = {
        1: [(-0.5, -1.0, 0.0), (-0.1875, -0.375, 0.0)],
        2: [(-0.5, -0.5, -0.5), (-0.1875, -0.25, -0.125)],
        3: [(-0.75, None, None), (-0.5, None, None)],
    }
    moved = [
        {
            "arm_id": a, "scorer": scorer, "decoding": "sample", "measure": measure, "n_pairs": 4, "n_clusters": 2, "n_draws": 10_000, "difference": d,
            "low": low, "high": high, "interval_note": {1: None, 2: "bootstrap-t", 3: "none: 2 of at least 12 clusters"}[a],
        }
        for scorer in SCORERS
        for a, of in differences.items()
        for measure, (d, low, high) in zip(("over", "score"), of, strict=True)
    ]  # fmt: skip
    costs = [
        {"arm_id": a, "corpus_id": 0, "n_tokens": 10, "loss": loss, "perplexity": math.exp(loss), "distinct_2": 1.0}
        for a, loss in enumerate([0.0, 1.0, 0.5, 0.0])
    ]
    row = experiment("suppression", "no dogs", author=None)
    prompts = [THE_CAT, prompt(1, "The dog", [(1, 0, 3, "other"), (10, 3, 7, "last")], cluster="a …")]
    return tables(row, prompts, **with_arms(of_arms), generation=written, generation_score=scores, score_difference=moved, arm_cost=costs)


EXPERIMENTS = (live, tracing, patching, knockout, saliency, suppression)


def arrow(rows: Mapping[str, list[dict[str, Any]]]) -> dict[str, pa.Table]:
    return {name: pa.Table.from_pylist(found) for name, found in rows.items()}


def write_tiny_experiments(atlas_path: Path) -> None:
    for made in EXPERIMENTS:
        save(atlas_path, arrow(made()))
