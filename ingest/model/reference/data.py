"""The speeches of one split as tokens, and the windows that training and validation read."""

from collections.abc import Iterator

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from ingest.model.reference.recipe import CONTEXT, VOCABULARY
from ingest.text.corpora.sotu import open_sotu

BOS = "<|endoftext|>"


def train_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE over the training speeches, which puts BOS before a text."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=[BOS], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    bpe.train_from_iterator((d.text for d in open_sotu("train").documents()), trainer)
    bpe.post_processor = processors.TemplateProcessing(single=f"{BOS} $A", pair=f"{BOS} $A {BOS} $B", special_tokens=[(BOS, 0)])
    return PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token=BOS, eos_token=BOS, pad_token=BOS, model_max_length=CONTEXT)


def encode_split(tokenizer: PreTrainedTokenizerFast, split: str) -> list[Tensor]:
    """Token ids of each speech of a split, without BOS, int64."""
    texts = [d.text for d in open_sotu(split).documents()]
    return [torch.tensor(e.ids) for e in tokenizer.backend_tokenizer.encode_batch(texts, add_special_tokens=False)]


def windows(speech: Tensor, bos: int, offset: int = 0) -> Iterator[Tensor]:
    """BOS and CONTEXT - 1 consecutive tokens, from `offset` on; the last window is what is left."""
    for start in range(offset, len(speech) - 1, CONTEXT - 1):
        yield torch.cat([speech.new_tensor([bos]), speech[start : start + CONTEXT - 1]])


def epoch(speeches: list[Tensor], bos: int, rng: np.random.Generator, batch_size: int) -> list[tuple[Tensor, Tensor]]:
    """The shuffled batches of one pass, each speech cut from another place than in the pass before."""
    cut = [w for s in speeches for w in windows(s, bos, int(rng.integers(0, min(CONTEXT, len(s) // 2 + 1))))]
    order = rng.permutation(len(cut))
    return [batch([cut[i] for i in order[start : start + batch_size]]) for start in range(0, len(order), batch_size)]


def batch(rows: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Inputs [n, longest] and targets, which are -100 (left out of the loss) where there is nothing to predict."""
    padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=0)
    targets = torch.nn.utils.rnn.pad_sequence([r[1:] for r in rows], batch_first=True, padding_value=-100)
    return padded[:, : targets.shape[1]], targets
