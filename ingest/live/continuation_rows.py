"""Continuations of a prompt, unchanged and under each arm: rows of `generation`, and the unfinished texts while they are generated."""

import pyarrow as pa
import torch

from ingest.acting.decoding import Decoding
from ingest.acting.generation import generate
from ingest.live.jobs import Tell
from ingest.live.request import LiveRequest
from ingest.model.models import Model
from ingest.text.sequences import CutDocument
from schema.interventions.intervention import Arm

GENERATION = pa.schema(
    [
        ("arm_id", pa.int32()), ("prompt_id", pa.int32()), ("sample", pa.int32()), ("seed", pa.int64()), ("text", pa.string()),
        ("token_ids", pa.list_(pa.int32())), ("decoding", pa.string()), ("finish", pa.string()),
    ]
)  # fmt: skip


def generation_table(model: Model, prompt: CutDocument, arms: tuple[Arm, ...], asked: LiveRequest, tell: Tell) -> pa.Table:
    """Generate one row for the prompt and one for each resolved arm; no row if no new token is requested. `finish` is eos if the model ended the text."""
    if not asked.n_new:
        return GENERATION.empty_table()
    decoding = Decoding() if asked.seed is None else Decoding("sample")
    token_ids = torch.from_numpy(prompt.sequences[0].token_ids).long().to(model.input_device)
    new: list[list[int]] = [[] for _ in range(1 + len(arms))]
    texts = [""] * len(new)

    def on_token(row: int, token_id: int) -> None:
        new[row].append(token_id)
        texts[row] = text_of(model, new[row])
        tell("generating", len(new[row]) / asked.n_new, texts=list(texts))

    found = generate(
        model, {0: token_ids}, 0, arms, asked.n_new, {}, decoding=decoding, seed=asked.seed or 0, is_exact=False, on_token=on_token
    )  # fmt: skip
    rows = [
        {
            "arm_id": arm_id, "prompt_id": 0, "sample": 0, "seed": asked.seed, "text": text_of(model, each.token_ids), "token_ids": list(each.token_ids),
            "decoding": decoding.name, "finish": each.finish,
        }
        for arm_id, each in enumerate(found)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, GENERATION)


def text_of(model: Model, token_ids: tuple[int, ...] | list[int]) -> str:
    # of one text it gives one, which its type does not say
    return str(model.tokenizer.decode(list(token_ids), clean_up_tokenization_spaces=False))
