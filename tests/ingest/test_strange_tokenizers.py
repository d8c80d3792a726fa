"""Tokenizers of strangers: files that ask for more than any model's, and patterns that take a text for ever, panic, or make far more of it than it is."""

import base64
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from ingest.model.loading import load_tokenizer
from ingest.model.sources import find_source
from ingest.text.sequences import Encoder
from ingest.text.tokenizer_bounds import LLAMA_3, check_tokenizer, strange_patterns
from schema.errors import AtlasError
from schema.own_process import command_of
from tests.ingest.tiny_models import tiny_hf, tiny_tokenizer

Change = Callable[[dict[str, Any]], object]

BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
TEXT = "a" * 40 + "! " + "a" * 5000 + "!\n"


def saved(folder: Path, change: Change, file: str = "tokenizer.json") -> Path:
    tiny_hf("gpt2").save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    said = json.loads((folder / file).read_text())
    change(said)
    (folder / file).write_text(json.dumps(said))
    return folder


def read(folder: Path) -> PreTrainedTokenizerFast:
    return load_tokenizer(find_source(str(folder), None))


def replacing(*pairs: tuple[str, str], kind: str = "String") -> Change:
    each = [{"type": "Replace", "pattern": {kind: old}, "content": new} for old, new in pairs]
    return lambda said: said.update(normalizer={"type": "Sequence", "normalizers": each})


def cutting(pattern: str) -> Change:
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return lambda said: said.update(pre_tokenizer={"type": "Sequence", "pretokenizers": [split, BYTES]})


def added(n: int, **more: object) -> list[dict[str, object]]:
    token = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True, **more}
    return [{"id": 1000 + i, "content": f"<{i}>", **token} for i in range(n)]


def charsmap(text: bytes) -> str:
    return base64.b64encode((4).to_bytes(4, "little") + b"\0" * 4 + text + b"\0").decode()


ROUND = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "x", "type_id": 0}}] * 2000 + [{"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
    "special_tokens": {"x": {"id": "x", "ids": [0], "tokens": ["x"]}},
}

STRANGE: dict[str, tuple[Change, str]] = {
    "an id": (lambda s: s["model"]["vocab"].update(zz=4 * 10**9), "it has a token with the id 4,000,000,000, and ids are below 16,777,216"),
    "an added id": (lambda s: s["added_tokens"].append(added(1)[0] | {"id": 2**31}), "it has a token with the id 2,147,483,648, and ids are below"),
    "many added": (lambda s: s["added_tokens"].extend(added(300_000)), "it adds 300,001 tokens to its vocabulary, and 65,536 are taken at most"),
    "doubling": (replacing(*[("l", "ll")] * 28), "its replacements can turn one character into more than 64"),
    "doubling by turns": (replacing(*[("l", "mm"), ("m", "ll")] * 14), "its replacements can turn one character into more than 64"),
    "a long replacement": (replacing(("e", "x" * 10**6)), "its replacements can turn one character into more than 64"),
    "every character": (replacing((".", "xxxxxxxxx"), (".", "xxxxxxxxx"), kind="Regex"), "its replacements can turn one character into more than 64"),
    "a long prefix": (
        lambda s: s.update(normalizer={"type": "Prepend", "prepend": "x" * 10**6}),
        "inserts 1,000,000 characters at once, and 256 are taken at most",
    ),
    "a long map": (
        lambda s: s.update(normalizer={"type": "Precompiled", "precompiled_charsmap": charsmap(b"x" * 9999)}),
        "inserts 9,999 characters at once, and 256 are taken at most",
    ),
    "bytes of bytes": (lambda s: s.update(pre_tokenizer={"type": "Sequence", "pretokenizers": [BYTES] * 20}), "in 20 steps, and 64 are taken at most, of"),
    "many steps": (replacing(*[("a", "b")] * 10_000), "it changes or cuts a text in 10,000 steps, and 64 are taken at most"),
    "round a text": (lambda s: s.update(post_processor=ROUND), "it puts up to 2,001 special tokens around a text, and 1,000 are taken at most"),
    "long words": (
        lambda s: s.update(
            model={"type": "WordPiece", "vocab": {"a": 0}, "unk_token": "a", "continuing_subword_prefix": "", "max_input_chars_per_word": 10**9}
        ),
        "it looks up words of 1,000,000,000 characters",
    ),
    "at random": (lambda s: s["model"].update(dropout=0.5), "it leaves out 50% of its merges at random (dropout)"),
    "no object": (lambda s: s.update(normalizer=[1]), "it holds a JSON list where an object should be"),
    "a panic": (lambda s: s["model"].update(continuing_subword_prefix="x" * 99), "m: cannot read its tokenizer: range end index"),
    "nonsense": (lambda s: s.update(model={"type": "BPE", "vocab": {"a": "b"}, "merges": []}), "cannot read its tokenizer"),
}


@pytest.mark.first_cases(5)
@pytest.mark.parametrize("case", STRANGE)
def test_a_tokenizer_that_asks_for_more_than_any_models_is_refused_in_a_line(tmp_path: Path, capfd: pytest.CaptureFixture, case: str) -> None:
    change, said = STRANGE[case]
    folder = saved(tmp_path / "m", change)
    capfd.readouterr()
    with pytest.raises(AtlasError) as caught:
        read(folder)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    # Rust writes a page about a panic
    assert capfd.readouterr() == ("", "")


def test_settings_that_add_too_many_tokens_are_refused(tmp_path: Path) -> None:
    many = saved(tmp_path / "m", lambda said: said.update(extra_special_tokens=[f"<{i}>" for i in range(70_000)]), "tokenizer_config.json")
    with pytest.raises(AtlasError, match="cannot read its tokenizer_config.json: ValueError: it adds 70,000 tokens to its vocabulary"):
        read(many)
    far = saved(tmp_path / "n", lambda said: said.update(added_tokens_decoder={str(10**10): {"content": "x"}}), "tokenizer_config.json")
    with pytest.raises(AtlasError, match="it has a token with the id 10,000,000,000"):
        read(far)


def test_a_panic_at_the_first_text_is_a_line_and_ends_no_process(tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    encoder = Encoder(read(saved(tmp_path / "m", cutting("^(a+)+$"))))
    capfd.readouterr()
    with pytest.raises(AtlasError, match=r"^the tokenizer of '.*m' cannot read the text that begins 'aa.*aa': PanicException: Onig: Regex search error"):
        encoder.encode(TEXT)
    assert capfd.readouterr() == ("", "")


def test_a_panic_at_a_later_text_is_a_line_too(tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    encoder = Encoder(read(saved(tmp_path / "m", cutting("^(a+)+$"))))
    capfd.readouterr()
    assert len(encoder.encode("a cat").token_ids) == 5
    with pytest.raises(AtlasError, match=r"cannot read the text that begins 'aa.*aa': Onig: Regex search error"):
        encoder.encode(TEXT)
    assert capfd.readouterr() == ("", "")


@pytest.mark.thorough
def test_a_pattern_that_takes_a_text_for_ever_is_given_up(tmp_path: Path) -> None:
    encoder = Encoder(read(saved(tmp_path / "m", cutting("[a-y]*[a-y]*[xyz]"))))
    start = time.process_time()
    with pytest.raises(AtlasError, match="it took more than 4 seconds of processor time"):
        encoder.encode("thecatandthedog" * 200 + " x")
    assert time.process_time() - start < 2


@pytest.mark.thorough
def test_a_tokenizer_of_other_files_is_read_within_limits_first(tmp_path: Path) -> None:
    """A vocabulary and merges, as GPT-2 was published with, and no tokenizer.json."""
    folder = saved(tmp_path / "m", lambda said: None)
    said = json.loads((folder / "tokenizer.json").read_text())["model"]
    (folder / "vocab.json").write_text(json.dumps(said["vocab"]))
    (folder / "merges.txt").write_text("\n".join(" ".join(pair) for pair in said["merges"]))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "GPT2Tokenizer"}))
    (folder / "tokenizer.json").unlink()
    assert Encoder(read(folder)).encode("the").token_ids.tolist() == [said["vocab"]["the"]]
    (folder / "merges.txt").write_text("a\n" * 9)
    with pytest.raises(AtlasError, match="model m: cannot read its tokenizer: "):
        read(folder)


def test_usual_tokenizers_are_bounded_and_calm(tmp_path: Path) -> None:
    """Normalisers and patterns as models of today have them."""
    sentencepiece = [("``", '"'), ("''", '"'), (" ", "▁")]
    for change in (lambda said: None, cutting(LLAMA_3), replacing(*sentencepiece), lambda s: s.update(normalizer={"type": "Prepend", "prepend": "▁"})):
        folder = saved(tmp_path / "m", change)
        check_tokenizer(folder / "tokenizer.json")
        said = json.loads((folder / "tokenizer.json").read_text())
        assert strange_patterns(said["normalizer"], said["pre_tokenizer"]) == set()
    assert strange_patterns(None, {"type": "Split", "pattern": {"Regex": "a*"}, "behavior": "Isolated", "invert": False}) == {"a*"}


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("module", ["ingest.text.tokenizer_trial", "ingest.text.chat_template", "schema.reading_back"])
def test_no_file_of_the_folder_that_one_stands_in_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    for name in ("json", "random", "tokenizers", "transformers"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    command, environment = command_of(module)
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, check=False)
    assert not (tmp_path / "ran").exists()
