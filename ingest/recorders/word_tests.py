"""Tests of analogies and similarities of words, answered by the rows of an embedding matrix.

Source: Mikolov et al. 2013; Levy and Goldberg 2014 (3CosAdd, 3CosMul); Spearman's correlation as for WordSim-353 and SimLex-999.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import torch
from scipy.stats import spearmanr
from torch import Tensor
from torch.nn.functional import normalize

from ingest.recorders.plans import Basis, CostSample, Plan, Work
from ingest.recorders.token_vectors import Space, space_of, spaces, text_tokens
from ingest.text.word_tests import SIMILARITIES, analogies, folder, similarities, similarity_file
from ingest.timing import fastest_seconds
from ingest.workers.pool import Job, job
from ingest.workers.worker import Progress, Tables, Worker
from schema.terms import ANALOGIES

CHUNK = 256
"""Questions whose scores over the vocabulary are in memory at once."""

Question = tuple[str, str, str, str]


class Words:
    """The words of an embedding space: the row that stands for a word, and all rows that spell it. texts: the texts of the space's tokens."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.rows = {text: row for row, text in reversed(list(enumerate(texts)))}
        names = [text.strip().lower() for text in texts]
        numbers = {name: i for i, name in enumerate(dict.fromkeys(names))}
        self.numbers = numbers
        self.number_of = torch.tensor([numbers[name] for name in names])

    def row(self, word: str) -> int | None:
        """Find the row of a word's token with a leading space, or else without one; None for a word of several tokens."""
        return self.rows.get(f" {word}", self.rows.get(word))

    def number(self, word: str) -> int:
        """Return the number of a word, which all its spellings share."""
        return self.numbers[word.strip().lower()]


def answer_questions(space: Space, words: Words, questions: Sequence[Question]) -> Iterator[tuple[str, int, int]]:
    """Yield, for each method, its name, the number of right answers, and the number of right answers if the three given words may be answers too.

    questions: their words must all have a row.
    """
    rows = torch.tensor([[words.row(word) for word in question] for question in questions])
    numbers = torch.tensor([[words.number(word) for word in question] for question in questions])
    of = {"add": normalize(space.vectors, dim=1), "add_centred": space.unit, "multiply": normalize(space.vectors, dim=1)}
    for method in ANALOGIES:
        right, right_of_all = 0, 0
        for start in range(0, len(questions), CHUNK):
            part = slice(start, start + CHUNK)
            scores = score_tokens(of[method], rows[part], method).cpu()
            asked = numbers[part]
            right_of_all += int((words.number_of[scores.argmax(1)] == asked[:, 3]).sum())
            for i in range(3):
                scores[words.number_of[None, :] == asked[:, i : i + 1]] = -torch.inf
            right += int((words.number_of[scores.argmax(1)] == asked[:, 3]).sum())
        yield method, right, right_of_all


def score_tokens(unit: Tensor, rows: Tensor, method: str) -> Tensor:
    """Score every token as the fourth word: unit [n, d_model], rows [m, 4] to [m, n]."""
    a, b, c = (unit[rows[:, i].to(unit.device)] for i in range(3))
    if method != "multiply":
        return (b - a + c) @ unit.T
    near_a, near_b, near_c = ((x @ unit.T + 1) / 2 for x in (a, b, c))
    return near_b * near_c / (near_a + 0.001)


def analogy_rows(space: Space, words: Words, sections: dict[str, list[Question]]) -> list[dict[str, object]]:
    """Build the rows of `analogy_score`. A section without a question that can be asked has rows too, which count the questions left out."""
    found: list[dict[str, object]] = []
    for section, questions in sections.items():
        asked = [q for q in questions if all(words.row(word) is not None for word in q)]
        counts = {"n_asked": len(asked), "n_left_out": len(questions) - len(asked)}
        for method, right, right_of_all in answer_questions(space, words, asked) if asked else ((method, 0, 0) for method in ANALOGIES):
            found.append({"space": space.name, "section": section, "method": method, **counts, "n_right": right, "n_right_of_all": right_of_all})
    return found


def similarity_row(space: Space, words: Words, suite: str, pairs: Sequence[tuple[str, str, float]]) -> dict[str, object]:
    """Build the row of `similarity_score` for a suite of word pairs."""
    found = [(words.row(first), words.row(second), score) for first, second, score in pairs]
    used = [(first, second, score) for first, second, score in found if first is not None and second is not None]
    row: dict[str, object] = {"space": space.name, "suite": suite, "n_pairs": len(used), "n_left_out": len(pairs) - len(used)}
    if len(used) < 3:
        return row | {"spearman": None, "spearman_raw": None}
    first, second, score = (np.array(each) for each in zip(*used, strict=True))
    vectors = {"spearman": space.unit, "spearman_raw": normalize(space.vectors, dim=1)}
    return row | {name: float(spearmanr((unit[first] * unit[second]).sum(1).cpu().numpy(), score).statistic) for name, unit in vectors.items()}


N_SECTIONS, N_SUITES = 14, 2


class WordTest(Work):
    """Plans and costs of the pass `word_test`."""

    def plans(self, basis: Basis) -> Iterable[Plan]:
        names, (ids, texts) = spaces(basis.model), text_tokens(basis)

        def jobs(run_id: int, shards: list[int]) -> Iterable[Job]:
            return (job(run_id, i, compute, space=names[i], token_ids=ids, texts=texts) for i in shards)

        yield Plan(basis.request.weights_settings(), [1] * len(names), "spaces", jobs)

    def rows(self, sample: CostSample) -> dict[str, int]:
        """Count the rows: one for each space, section and method, and one for each space and suite of similarities."""
        n = len(spaces(sample.model))
        return {"analogy_score": n * N_SECTIONS * len(ANALOGIES), "similarity_score": n * N_SUITES}

    def seconds(self, sample: CostSample) -> float:
        """Estimate the time of all 19,544 questions from that of CHUNK of them."""
        space = space_of(sample.model, "input", np.arange(sample.model.n_embeddings))
        each = fastest_seconds(lambda: score_tokens(space.unit, torch.zeros(CHUNK, 4, dtype=torch.int64), "add")) / CHUNK
        return each * 19_544 * len(ANALOGIES) * len(spaces(sample.model))


def compute(worker: Worker, progress: Progress, *, space: str, token_ids: np.ndarray, texts: list[str]) -> Tables:
    found = space_of(worker.model, space, token_ids)
    words = Words(texts[: len(found.token_ids)])
    rows = analogy_rows(found, words, analogies(folder() / "questions-words.txt"))
    ranked = [similarity_row(found, words, suite, similarities(folder() / similarity_file(suite))) for suite in SIMILARITIES]
    progress(1)
    floats = [("spearman", pa.float64()), ("spearman_raw", pa.float64())]
    schema = pa.schema([("space", pa.string()), ("suite", pa.string()), ("n_pairs", pa.int64()), ("n_left_out", pa.int64()), *floats])
    return {"similarity_score": pa.Table.from_pylist(ranked, schema), "analogy_score": pa.Table.from_pylist(rows)}
