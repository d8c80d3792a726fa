"""Continuations of many prompts by a model under one arm, drawn with several seeds and greedily, and their scores."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ingest.acting.decoding import Decoding, Generated, OnToken
from ingest.acting.draws import seeded_hash
from ingest.acting.edits import AssignedArm
from ingest.acting.generation import continue_under_arms
from ingest.acting.scorers import Scorer
from ingest.acting.self_debias import self_debiased
from ingest.acting.suppression import SELF_DEBIASING, WORD_FILTER, PlannedArm
from ingest.acting.word_filter import Forms, word_filter
from ingest.model.models import Model

ROWS = 64
"""Number of continuations that are written at once. Another number gives other bits."""


@dataclass(frozen=True)
class ContinuationSettings:
    """Settings for writing continuations. All continuations have n_new tokens: EOS is never chosen."""

    n_new: int
    seeds: tuple[int, ...]
    sample: Decoding
    forms: Forms
    """Words that the word filter leaves out."""
    debiasing: float
    """Strength of self-debiasing."""
    descriptions: tuple[str, ...]
    """Texts that self-debiasing reads before prompts."""


@dataclass(frozen=True)
class Job:
    """One continuation to be written. Its seed is the sample's, hashed with the prompt, so that the draws of prompts are independent."""

    prompt_id: int
    sample: int
    seed: int | None
    """None for greedy decoding, which draws nothing."""


def jobs(n_prompts: int, seeds: Sequence[int]) -> list[Job]:
    """List, for each prompt, one job per seed and the greedy one last."""
    of_one = [*enumerate(seeds), (len(seeds), None)]
    return [Job(prompt_id, sample, None if seed is None else seeded_hash(seed, prompt_id)) for prompt_id in range(n_prompts) for sample, seed in of_one]


def batches(todo: Sequence[Job], prompts: Sequence[Tensor]) -> Iterator[tuple[Job, ...]]:
    """Yield batches of at most ROWS jobs, of prompts of one length.

    The batches are the same under every arm, so that what an arm does not change has the same bits.
    """
    groups: dict[int, list[Job]] = {}
    for job in todo:
        groups.setdefault(len(prompts[job.prompt_id]), []).append(job)
    for n in sorted(groups):
        yield from (tuple(groups[n][start : start + ROWS]) for start in range(0, len(groups[n]), ROWS))


def continuations(
    model: Model, prompts: Sequence[Tensor], planned: PlannedArm, how: ContinuationSettings, progress: Callable[[int, int], None]
) -> list[tuple[Job, Generated]]:
    """Write continuations, in order of prompts and samples. Raises as `continue_rows` does.

    prompts: each [seq]. progress: gets the number of tokens written, and of all tokens.
    """
    todo = jobs(len(prompts), how.seeds)
    n_done, n = 0, len(todo) * how.n_new
    found: list[tuple[Job, Generated]] = []

    def on_token(_row: int, _token_id: int) -> None:
        nonlocal n_done
        n_done += 1
        progress(n_done, n)

    for batch in batches(todo, prompts):
        rows = torch.stack([prompts[job.prompt_id] for job in batch]).to(model.input_device)
        found += zip(batch, write_batch(model, rows, planned, how, [job.seed for job in batch], on_token), strict=True)
    return sorted(found, key=lambda one: (one[0].prompt_id, one[0].sample))


def write_batch(model: Model, rows: Tensor, planned: PlannedArm, how: ContinuationSettings, seeds: Sequence[int | None], on_token: OnToken) -> list[Generated]:
    """Write the continuations of one batch by the method of its arm (`planned.way`). rows: [n, seq]."""
    n, n_prompt = rows.shape
    common: dict[str, Any] = {"decoding": how.sample, "seeds": seeds, "is_exact": True, "on_token": on_token}
    if planned.way == SELF_DEBIASING:
        return self_debiased(model, rows, how.n_new, strength=how.debiasing, descriptions=how.descriptions, **common)
    adjust = dict.fromkeys(range(n), word_filter(how.forms)) if planned.way == WORD_FILTER else {}
    assigned = [AssignedArm(planned.arm, slice(0, n), n_prompt, n_prompt + how.n_new - 1)] if planned.arm else []
    return continue_under_arms(model, rows, how.n_new, assigned, adjust=adjust, **common)


def generation_rows(model: Model, arm_id: int, found: Sequence[tuple[Job, Generated]]) -> list[dict[str, Any]]:
    """Build the rows of `generation`."""
    return [
        {
            "arm_id": arm_id, "prompt_id": job.prompt_id, "sample": job.sample, "seed": job.seed,
            "text": str(model.tokenizer.decode(list(one.token_ids), clean_up_tokenization_spaces=False)), "token_ids": list(one.token_ids),
            "decoding": "greedy" if job.seed is None else "sample", "finish": one.finish,
        }
        for job, one in found
    ]  # fmt: skip


def score_rows(generations: Sequence[dict[str, Any]], scorers: Sequence[Scorer]) -> list[dict[str, Any]]:
    """Build the rows of `generation_score`, of continuations without their prompts. `is_over`: the score, stored in float32, is 0.5 or more."""
    texts = [row["text"] for row in generations]
    return [
        {
            "arm_id": row["arm_id"], "prompt_id": row["prompt_id"], "sample": row["sample"], "scorer": scorer.name, "scorer_version": scorer.version,
            "score": float(score), "is_over": bool(score >= 0.5),
        }
        for scorer in scorers
        for row, score in zip(generations, scorer.scores(texts).astype("float32"), strict=True)
    ]  # fmt: skip
