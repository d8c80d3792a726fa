"""The speeches of one split as tokens, and the windows that training and validation read."""

from collections.abc import Iterator

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from ingest.model.reference.recipe import CONTEXT, Recipe
from ingest.text.corpora.sotu import open_sotu

BOS = "<|endoftext|>"

BLOCK = (5, 101)
"""Bounds on the length of a block of tokens that repeats: the shortest, and the first length that is too long."""

N_TIMES = 4
"""Number of copies of a block in a row; the row ends at CONTEXT tokens."""


def train_tokenizer(vocabulary: int) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer on the training speeches; the tokenizer puts BOS before a text."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=[BOS], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    bpe.train_from_iterator((d.text for d in open_sotu("train").documents()), trainer)
    bpe.post_processor = processors.TemplateProcessing(single=f"{BOS} $A", pair=f"{BOS} $A {BOS} $B", special_tokens=[(BOS, 0)])
    return PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token=BOS, eos_token=BOS, pad_token=BOS, model_max_length=CONTEXT)


def encode_split(tokenizer: PreTrainedTokenizerFast, split: str) -> list[Tensor]:
    """Encode each speech of a split as token ids, without BOS, int64."""
    texts = [d.text for d in open_sotu(split).documents()]
    return [torch.tensor(e.ids) for e in tokenizer.backend_tokenizer.encode_batch(texts, add_special_tokens=False)]


def windows(speech: Tensor, bos: int, offset: int = 0) -> Iterator[Tensor]:
    """Yield windows of BOS and CONTEXT - 1 consecutive tokens, from `offset` on; the last window may be shorter."""
    for start in range(offset, len(speech) - 1, CONTEXT - 1):
        yield torch.cat([speech.new_tensor([bos]), speech[start : start + CONTEXT - 1]])


def repeated_batch(n_tokens: int, vocabulary: int, bos: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Build a batch of about n_tokens. A row is BOS and copies of one block of different tokens, drawn uniformly from all tokens but BOS.

    All blocks of a batch have the same length. It is drawn log-uniformly, so that no fixed distance tells which token follows, and the previous copy is
    sometimes near. Returns inputs and targets as `batch` does.
    """
    size = int(np.exp(rng.uniform(*np.log(BLOCK))))
    length = min(CONTEXT, 1 + N_TIMES * size)
    blocks = (rng.permutation(np.delete(np.arange(vocabulary), bos))[:size] for _ in range(max(1, n_tokens // length)))
    return batch([torch.from_numpy(np.concatenate([[bos], np.resize(block, length - 1)])) for block in blocks])


def epoch(speeches: list[Tensor], bos: int, rng: np.random.Generator, recipe: Recipe) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the shuffled batches of one pass over the speeches; each speech is cut into windows from an offset that is drawn for this pass.

    If the recipe has steps on repeated blocks, a batch of such blocks follows each batch of text.
    """
    cut = [w for s in speeches for w in windows(s, bos, int(rng.integers(0, min(CONTEXT, len(s) // 2 + 1))))]
    order = rng.permutation(len(cut))
    for start in range(0, len(order), recipe.batch_size):
        yield batch([cut[i] for i in order[start : start + recipe.batch_size]])
        if recipe.n_repeated:
            yield repeated_batch(recipe.n_repeated, recipe.vocabulary, bos, rng)


def batch(rows: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Pad rows to inputs [n, longest - 1] and targets of the same shape, which are -100 (left out of the loss) where a row has ended."""
    padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=0)
    targets = torch.nn.utils.rnn.pad_sequence([r[1:] for r in rows], batch_first=True, padding_value=-100)
    return padded[:, : targets.shape[1]], targets
