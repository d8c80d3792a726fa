"""How far word vectors agree with people: analogies and similarities that gensim ships, one shard a space."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ingest.passes.base import Basis, Plan, PlannedPass, Probe, flag
from ingest.passes.token_vector import spaces, text_tokens

if TYPE_CHECKING:
    import numpy as np

    from ingest.request import Request
    from ingest.workers.pool import Job
    from ingest.workers.worker import Progress, Tables, Worker

N_SECTIONS, N_SUITES = 14, 2


class WordTest(PlannedPass):
    name = "word_test"
    after = ("weights", "token_vector")
    is_repeatable = False
    options = (flag("word-tests", "Answer analogies and rank similar words by the embeddings; the sets are those that gensim ships, which must be installed."),)

    def is_wanted(self, request: "Request") -> bool:
        return bool(request.options["word_tests"])

    def check(self, request: "Request") -> None:
        from ingest.text.word_tests import folder

        folder()

    def plans(self, basis: Basis) -> Iterable[Plan]:
        from ingest.workers.pool import job

        names, (ids, texts) = spaces(basis.model), text_tokens(basis)

        def jobs(run_id: int, shards: list[int]) -> "Iterable[Job]":
            return (job(run_id, i, compute, space=names[i], token_ids=ids, texts=texts) for i in shards)

        yield Plan(basis.request.weights_settings(), [1] * len(names), "spaces", jobs)

    def rows(self, probe: Probe) -> dict[str, int]:
        """At most: sections that no question can be asked of have none."""
        from schema.terms import ANALOGIES

        n = len(spaces(probe.model))
        return {"analogy_score": n * N_SECTIONS * len(ANALOGIES), "similarity_score": n * N_SUITES}

    def seconds(self, probe: Probe) -> float:
        """From one question, of the 19,544 that there are."""
        import numpy as np
        import torch

        from ingest.recorders.token_vectors import space_of
        from ingest.recorders.word_tests import CHUNK, scored
        from ingest.timing import fastest
        from schema.terms import ANALOGIES

        space = space_of(probe.model, "input", np.arange(probe.model.n_embeddings))
        each = fastest(lambda: scored(space.unit, torch.zeros(CHUNK, 4, dtype=torch.int64), "add")) / CHUNK
        return each * 19_544 * len(ANALOGIES) * len(spaces(probe.model))


def compute(worker: "Worker", progress: "Progress", *, space: str, token_ids: "np.ndarray", texts: list[str]) -> "Tables":
    import pyarrow as pa

    from ingest.recorders.token_vectors import space_of
    from ingest.recorders.word_tests import Words, analogy_rows, similarity_row
    from ingest.text.word_tests import SIMILARITIES, analogies, folder, similarities, similarity_file

    found = space_of(worker.model, space, token_ids)
    words = Words(texts[: len(found.token_ids)])
    rows = analogy_rows(found, words, analogies(folder() / "questions-words.txt"))
    ranked = [similarity_row(found, words, suite, similarities(folder() / similarity_file(suite))) for suite in SIMILARITIES]
    progress(1)
    floats = [("spearman", pa.float64()), ("spearman_raw", pa.float64())]
    schema = pa.schema([("space", pa.string()), ("suite", pa.string()), ("n_pairs", pa.int64()), ("n_left_out", pa.int64()), *floats])
    return {"similarity_score": pa.Table.from_pylist(ranked, schema), "analogy_score": pa.Table.from_pylist(rows)}


PASS = WordTest()
