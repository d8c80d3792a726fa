"""A model's continuations of many prompts under one arm, sampled with several seeds and decoded greedily, and their scores."""

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
"""Maximum number of continuations in a batch. With another number, the last bits of the logits differ."""


@dataclass(frozen=True)
class ContinuationSettings:
    """Settings for writing continuations. All continuations have n_new tokens: EOS is never chosen."""

    n_new: int
    seeds: tuple[int, ...]
    sample: Decoding
    forms: Forms
    """Words that the word filter keeps from being generated, as tokens."""
    debiasing: float
    """Strength of self-debiasing."""
    descriptions: tuple[str, ...]
    """Texts that self-debiasing reads before prompts."""


@dataclass(frozen=True)
class Job:
    """One continuation to be written. seed: a hash of the sample's seed and the prompt's id, so that draws for different prompts are independent."""

    prompt_id: int
    sample: int
    seed: int | None
    """None for greedy decoding, which draws nothing."""


def jobs(n_prompts: int, seeds: Sequence[int]) -> list[Job]:
    """List the jobs of all prompts: for each prompt one job per seed, then a greedy one."""
    of_one = [*enumerate(seeds), (len(seeds), None)]
    return [Job(prompt_id, sample, None if seed is None else seeded_hash(seed, prompt_id)) for prompt_id in range(n_prompts) for sample, seed in of_one]


def batches(todo: Sequence[Job], prompts: Sequence[Tensor]) -> Iterator[tuple[Job, ...]]:
    """Yield batches of at most ROWS jobs whose prompts have the same length.

    The batches are the same under every arm, so that continuations that an arm does not change are equal to the bit.
    """
    groups: dict[int, list[Job]] = {}
    for job in todo:
        groups.setdefault(len(prompts[job.prompt_id]), []).append(job)
    for n in sorted(groups):
        yield from (tuple(groups[n][start : start + ROWS]) for start in range(0, len(groups[n]), ROWS))


def continuations(
    model: Model, prompts: Sequence[Tensor], planned: PlannedArm, how: ContinuationSettings, progress: Callable[[int, int], None]
) -> list[tuple[Job, Generated]]:
    """Write continuations, ordered by prompt and sample. Raises AtlasError as `continue_under_arms` and `self_debiased` do.

    prompts: each [seq]. progress: gets the number of tokens written so far and the number of all tokens.
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
    """Build the rows of `generation_score`. Prompts are not scored. `is_over`: whether the score in float32 is 0.5 or more."""
    texts = [row["text"] for row in generations]
    return [
        {
            "arm_id": row["arm_id"], "prompt_id": row["prompt_id"], "sample": row["sample"], "scorer": scorer.name, "scorer_version": scorer.version,
            "score": float(score), "is_over": bool(score >= 0.5),
        }
        for scorer in scorers
        for row, score in zip(generations, scorer.scores(texts).astype("float32"), strict=True)
    ]  # fmt: skip
