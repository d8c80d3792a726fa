"""A tiny model, an atlas of it, and prompts that it answers."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from tests.exact.tiny import Tiny, make, run, tiny_request

TEXTS = [f"The {noun} of the {other} of the world is" for noun in ("people", "union", "first", "jury", "table") for other in ("union", "people", "sea")]


@dataclass(frozen=True)
class World:
    """answers: prompt → what the model says after it, as text; of prompts whose answer's text is one token again."""

    tiny: Tiny
    atlas: Path
    answers: dict[str, str]

    def prompts(self, n: int) -> list[dict[str, str]]:
        found = [{"text": text, "subject": " ".join(text.split()[1:5]), "answer": answer} for text, answer in self.answers.items()]
        assert len(found) >= n
        return found[:n]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("experiments")
    tiny = make(folder, "llama")
    atlas = run(tiny_request(tiny.folder, tiny.corpus, folder / "tiny.duckdb", trace=0, paper=False))
    return World(tiny, atlas, dict(prompts_with_answers(tiny)))


def prompts_with_answers(tiny: Tiny) -> Iterator[tuple[str, str]]:
    for text in TEXTS:
        ids = [tiny.bos, *tiny.tokenizer(text, add_special_tokens=False)["input_ids"]]
        with torch.inference_mode():
            top = int(tiny.hf(torch.tensor([ids])).logits[0, -1].argmax())
        word = tiny.tokenizer.decode([top])
        if tiny.tokenizer(text + word, add_special_tokens=False)["input_ids"] == [*ids[1:], top]:
            yield text, word


@pytest.fixture
def world(made: World, tmp_path: Path) -> World:
    """With nothing beside its atlas yet."""
    return World(made.tiny, Path(shutil.copy(made.atlas, tmp_path / "tiny.duckdb")), made.answers)
