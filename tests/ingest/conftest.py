"""Small tokenizers, made here and without a network, for every test of ingest."""

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

SENTENCES = [
    "The first of the people of the world. The people. The world.",
    "We the people, the first of many — naïve café 日本語!",
    "  Two spaces\n\nand lines.",
]


@pytest.fixture(scope="session")
def letter_tokenizer() -> PreTrainedTokenizerFast:
    """Every letter a to z is the token of its place in the alphabet, 26 is a full stop, 27 a space, 28 is <s>; it adds no BOS by itself."""
    vocab = {chr(ord("a") + i): i for i in range(26)} | {".": 26, "Ġ": 27}
    pipeline = Tokenizer(models.BPE(vocab, []))
    pipeline.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    pipeline.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=pipeline, bos_token="<s>")


@pytest.fixture(scope="session")
def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE of the GPT-2 kind, trained on SENTENCES; like GPT-2's, its own offsets leave leading spaces out."""
    pipeline = Tokenizer(models.BPE())
    pipeline.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    pipeline.train_from_iterator(SENTENCES * 5, trainers.BpeTrainer(vocab_size=340, initial_alphabet=alphabet, show_progress=False))
    pipeline.decoder = decoders.ByteLevel()
    pipeline.post_processor = processors.ByteLevel(trim_offsets=True)
    return PreTrainedTokenizerFast(tokenizer_object=pipeline, eos_token="<|endoftext|>")


@pytest.fixture(scope="session")
def sentencepiece_tokenizer() -> PreTrainedTokenizerFast:
    """BPE of the Llama 2 kind: ▁ for a space and before a text, single bytes for what it does not know, <s> before every text."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *"Hiokthe", "▁t", "▁th", "▁the", "▁▁"]
    vocab = {piece: place for place, piece in enumerate(pieces)}
    merges = [("▁", "t"), ("▁t", "h"), ("▁th", "e"), ("▁", "▁")]
    pipeline = Tokenizer(models.BPE(vocab, merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    pipeline.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    pipeline.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    pipeline.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=pipeline, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
