"""Tiny random models of six families, a corpus with every awkward text, and an ingest of one over the other."""

import json
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from ingest.cli import PAPER
from ingest.passes.recording import UPDATES
from ingest.recorders.trace_recorder import trace_settings
from ingest.request import Request
from ingest.run import ingest
from schema.progress import progress_bar
from tests.exact.checks import ID_STEP, Case
from tests.exact.published import Published
from tests.exact.reference import Reference, Text, cut_texts
from tests.ingest.tiny_models import code

D_FFN, D_VOCAB, CONTEXT = 40, 300, 24
TWIN_TOKENS = (230, 70)
"""The embedding of the first is a copy of the second's, and long: every score of theirs is a tie, in every projection, and often the best.

Both lie below 256, in whole blocks of a matrix product: some processors round the columns that a last, partial block leaves otherwise."""

TEXTS = [
    "The first of the people of the world, the first to speak: the people of the union and of the world.",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich — naïve café, 日本語のテキスト, 👩‍👩‍👧 and 🇩🇪!",
    " \n\t ",
    "",
    "The first of the people of the world, the first to speak: but here the text goes another way, for 17 of them.",
    "x",
    "  Two spaces\n\nand lines,\r\n\ttabs; <s> is spelt here, and so is a number 3.14159 (about).\n",
    "We hold these truths to be self-evident, that all men are created equal. " * 4,
    "the the the the the the the the the the the the the the the the the the the the the the the the the the the the",
]

COUNTED = [
    TEXTS[0],
    "The people of the union speak to the people of the world: these truths hold, and the first of them goes to the end of the world.",
    "We hold that the first of these truths is the world of the people, and that the people of these texts are equal.",
]
"""What is counted in, of which the first is predicted too."""

SIZES = {"vocab_size": D_VOCAB, "bos_token_id": 0, "eos_token_id": 0}
SMALL = SIZES | {"hidden_size": 16, "num_hidden_layers": 3, "max_position_embeddings": 64, "num_attention_heads": 4}
GATED = SMALL | {"intermediate_size": D_FFN, "num_key_value_heads": 2, "tie_word_embeddings": False}
CONFIGS = {
    "gpt2": SIZES | {"n_embd": 16, "n_layer": 3, "n_head": 2, "n_positions": 64, "n_inner": D_FFN},
    "gpt_neox": SMALL | {"intermediate_size": D_FFN, "tie_word_embeddings": False},
    "opt": SMALL | {"ffn_dim": D_FFN, "word_embed_proj_dim": 16},
    "llama": GATED | {"mlp_bias": True},
    "granite": GATED | {"residual_multiplier": 0.4, "logits_scaling": 3.0, "embedding_multiplier": 2.0, "attention_multiplier": 0.4},
    "gemma2": GATED | {"head_dim": 8, "sliding_window": 8, "final_logit_softcapping": 3.0, "query_pre_attn_scalar": 8, "tie_word_embeddings": True},
}
WITH_BOS = ("llama", "gemma2")

CIRCUITS = {"circuit": True, "attribution": True, "head_statistics": True, "head_probe": True, "direct_path": True, "skip_trigram": (0,)}
CIRCUITS |= {"prediction": True, "ngram_corpus": True}
"""Options that ask for every pass of attention and circuits, and for both kinds of prediction."""


@dataclass(frozen=True)
class Tiny:
    """A model and a corpus on disk, and the same in memory for the reference."""

    folder: Path
    hf: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    corpus: Path
    texts: list[Text]
    bos: int | None

    @cached_property
    def rounding(self) -> float:
        """How far apart two computations of a lens may be, as a share of the largest logit: measured on every fourth sequence."""
        cut, reference = cut_texts(self.texts, self.tokenizer, CONTEXT, self.bos), Reference(self.hf)
        sequences = np.split(cut.token_ids, np.cumsum(cut.lengths)[:-1])
        return max(reference.lens_rounding(tokens) for tokens in sequences[::4])

    def request(self, target: Path, **changes: object) -> Request:
        """What `atlas ingest` would ask for, with every vector and every coefficient of 60 traced positions, and a paper run."""
        return tiny_request(self.folder, self.corpus, target, **changes)

    def case(self, target: Path, request: Request, name: str, corpus_id: int = 0) -> Case:
        """A corpus of the published atlas beside its reference."""
        published, reference = Published(target), Reference(self.hf)
        cut = cut_texts(self.texts, self.tokenizer, request.context, self.bos)
        base = corpus_id * ID_STEP
        traced = published.rows(f"SELECT position_id - {base} FROM trace WHERE position_id >= {base} AND position_id < {base + ID_STEP} ORDER BY 1")
        kept = np.array(traced, np.int64).reshape(-1)
        shared = {"model": str(self.folder), "revision": None, "dtype": "float32"}
        settings = {
            "model_name": self.folder.name, "corpus": (str(self.corpus), "all", None), "seed": request.seed, "triggers": request.options["triggers"],
            "skip_first": request.options["skip_first"],
            "cutting": {"context": request.context, "bos": request.bos, "cut": request.cut}, "vector_sites": trace_settings(request).vector_sites,
            "coefficients": request.options["coefficients"], "bos": self.bos, "paper_keys": request.options["paper_keys"],
            "run_settings": [
                shared,
                shared | {name: request.options[name] for name in ("triggers", "skip_first", "distinct")}
                | {"batch_size": request.batch_size, "shard_positions": request.shard_positions},
                shared | {"trace": request.trace, "seed": request.seed, "coefficients": request.options["coefficients"], "batch_size": request.batch_size},
            ],
        }  # fmt: skip
        activations = reference.read(cut, kept)
        return Case(published, reference, self.tokenizer, self.texts, cut, activations, settings, self.rounding, np.arange(D_FFN), name, corpus_id)


def tiny_request(model: Path, corpus: Path, target: Path, **changes: object) -> Request:
    """The same by what `make` has saved, for another process. ngram_corpus: True stands for what it has saved of `COUNTED`."""
    options = {
        "context": CONTEXT, "triggers": 12, "trace": 60, "vectors": UPDATES, "coefficients": D_FFN, "batch_size": 3, "shard_positions": 100, "seed": 7,
        "paper": True, "paper_keys": 6,
    }  # fmt: skip
    if changes.get("ngram_corpus") is True:
        changes["ngram_corpus"] = str(counted_file(corpus))
    return asked(target, str(model), str(corpus), **options | changes)


def ingest_options(folder: Path, corpus: Path) -> list[str]:
    """What a command line says after `atlas ingest TARGET` for the same; the vectors stand in another order."""
    options = [
        "--model", folder, "--corpus", corpus, "--context", CONTEXT, "--triggers", 12, "--trace", 60, "--vectors", "attn_out", "--vectors", "ffn_out",
        "--coefficients", D_FFN, "--batch-size", 3, "--shard-positions", 100, "--seed", 7, "--paper", "--paper-keys", 6, "--device", "cpu",
    ]  # fmt: skip
    return list(map(str, options))


def counted_file(corpus: Path) -> Path:
    return corpus.with_name("counted.jsonl")


def asked(target: Path, model: str, corpus: str | None, **given: object) -> Request:
    """A request with the command line's rules for what is not given; `paper` asks for the passes of --paper."""
    usual = {"dtype": "float32", "device": "cpu", "every": 1, "bos": "auto", "cut": "tokens", "workers": 1, "trace": 0, "chat": False}
    options = {
        "triggers": 0,
        # what they are held against counts every position
        "skip_first": 0,
        "distinct": 0,
        "prediction": False,
        "ngram_split": None,
        "keys": False,
        "min_index": 1,
        "ngram_corpus": None,
        "vectors": (),
        "coefficients": 100,
        "paper_keys": 100,
        "map": False,
        "circuit": False,
        "attribution": False,
        "head_probe": False,
        "head_statistics": False,
        "direct_path": False,
        "token_vectors": False,
        "token_states": False,
        "word_tests": False,
        "words": None,
        "probe": (),
        "probe_layers": "all",
        "probe_rank": None,
        "tree_probe": False,
        "tree_ranks": "64",
        "head_relation": False,
        "term_loss": False,
        "skip_trigram": (),
        "skip_trigram_seen": 10,
        "suite": (),
        "items": 150,
    } | dict.fromkeys(PAPER, given.pop("paper", False))
    given |= {"target": target, "model": model, "corpus": corpus}
    options |= {name: given.pop(name) for name in set(given) - {f.name for f in fields(Request)}}
    return Request(**dict.fromkeys(f.name for f in fields(Request)) | usual | given | {"options": options})


def run(request: Request) -> Path:
    """Ingest without a progress bar on a terminal."""
    with progress_bar(is_quiet=True) as bar:
        ingest(request, bar)
    return request.target


def tokenizer(with_bos: bool) -> PreTrainedTokenizerFast:
    """Byte-level BPE trained on the texts, <s> = 0."""
    pipeline = Tokenizer(models.BPE())
    pipeline.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pipeline.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    pipeline.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=290, initial_alphabet=alphabet, special_tokens=["<s>"], show_progress=False))
    if with_bos:
        pipeline.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 0)])
    return PreTrainedTokenizerFast(tokenizer_object=pipeline, bos_token="<s>", eos_token="<s>")


def random_model(model_type: str, seed: int = 0) -> PreTrainedModel:
    """Every parameter random: no bias is 0 and no gain is 1, so nothing left out goes unnoticed. Two embeddings are twins."""
    config = AutoConfig.for_model(model_type, **CONFIGS[model_type])
    hf = AutoModelForCausalLM.from_config(config, attn_implementation=code(model_type, config))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _, parameter in sorted(hf.named_parameters()):
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.35)
        head = hf.get_output_embeddings().weight
        head[TWIN_TOKENS[1]] *= 2
        head[TWIN_TOKENS[0]] = head[TWIN_TOKENS[1]]
    return hf.eval()


def write_corpus(path: Path, texts: list[str]) -> list[Text]:
    """A .jsonl corpus with metadata."""
    rows = [{"text": text, "year": 1790 + i, "author": None if i % 2 else f"Author {i}"} for i, text in enumerate(texts)]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return [Text(f"{path.name}:{i}", row.pop("text"), row) for i, row in enumerate(rows)]


def make(folder: Path, model_type: str, texts: list[str] = TEXTS) -> Tiny:
    """Save a tiny model and the corpus to disk."""
    hf, made = random_model(model_type), tokenizer(model_type in WITH_BOS)
    hf.save_pretrained(folder / f"tiny-{model_type}")
    made.save_pretrained(folder / f"tiny-{model_type}")
    corpus = folder / "corpus.jsonl"
    write_corpus(counted_file(corpus), COUNTED)
    return Tiny(folder / f"tiny-{model_type}", hf, made, corpus, write_corpus(corpus, texts), 0 if model_type in WITH_BOS else None)
