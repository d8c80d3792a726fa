"""The reference model over the beginnings of three speeches, beside its brute-force reference."""

from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from ingest.model.reference import FOLDERS
from tests.exact.checks import Case
from tests.exact.published import Published
from tests.exact.reference import Reference, Text, cut_texts
from tests.exact.tiny import asked, run

N_DOCUMENTS, DOCUMENT_TOKENS, CONTEXT, N_TRACED, REMOVALS = 3, 400, 128, 100, 12


def trained_case(folder: Path) -> Case:
    """Ingest with a paper run, and read the same by brute force."""
    request = asked(
        folder / "atlas.duckdb", "reference", "sotu", split="train", context=CONTEXT, triggers=50, trace=N_TRACED, coefficients=20, batch_size=1,
        shard_positions=700, max_documents=N_DOCUMENTS, document_tokens=DOCUMENT_TOKENS, seed=0,
        paper=True, paper_keys=1,
    )  # fmt: skip
    published = Published(run(request))
    reference = Reference(AutoModelForCausalLM.from_pretrained(FOLDERS["opt-sotu"], dtype=torch.float32))
    tokenizer = AutoTokenizer.from_pretrained(FOLDERS["opt-sotu"])
    texts = [Text(name, text, {}) for name, text in published.rows("SELECT name, text FROM document ORDER BY document_id")]
    cut = cut_texts(texts, tokenizer, CONTEXT, tokenizer.bos_token_id, DOCUMENT_TOKENS)
    kept = np.array([p for (p,) in published.rows("SELECT position_id FROM trace ORDER BY position_id")], np.int64)
    settings = {"bos": tokenizer.bos_token_id, "paper_keys": request.options["paper_keys"], "seed": request.seed, "removals": REMOVALS}
    return Case(published, reference, tokenizer, texts, cut, reference.read(cut, kept), settings, 1e-6, np.empty(0), "reference")
