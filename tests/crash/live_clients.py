"""Who asks a model process for as long as others do something to it: prompts under arms, some of which are kept, some refused, some not waited for."""

import random
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import atlas
from schema.errors import AtlasError

PROMPTS = ("The first of the people", "x", "We hold these truths to be self-evident", "the the the the the", "日本語")
ARMS: tuple[Any, ...] = (
    "L1N3=0", "L2N30=max*0.5", "L0H1*=0.5", "L1N3=mean@last",
    [{"site": "resid_post", "layer": 1, "op": "patch", "from": {"prompt_id": 0, "index": 0}, "positions": "last"}],
    [{"site": "attention", "layer": 1, "op": "block", "units": "all", "edges": [[1, 0]]}],
)  # fmt: skip
REFUSED: tuple[tuple[str, Any], ...] = (("x", "L9N1=0"), ("", "L1N3=0"), ("x " * 100, "L1N3=0"), ("x", "L1H9=0"), ("x", [{"site": "coefficient"}]))


class Gone(Exception):
    """Whoever asked does not wait."""


def ask_once(a: atlas.Atlas, rng: random.Random, save: float = 0.0) -> str:
    """What became of one request; save: share of the answers that are kept. Raises AtlasError as asking does, but for what is to be refused."""
    kind = rng.random()
    if kind < 0.15:
        try:
            text, arm = rng.choice(REFUSED)
            a.live().trace(text, [arm])
        except AtlasError as error:
            if "process" in str(error):
                raise
            return "refused"
        raise AssertionError("what is wrong was answered")
    steps = rng.randrange(1, 12) if kind < 0.3 else 1 << 30

    def progress(_: object) -> None:
        nonlocal steps
        steps -= 1
        if steps < 0:
            raise Gone

    try:
        found = a.live().trace(rng.choice(PROMPTS), rng.sample(ARMS, rng.randrange(4)), n_new=rng.choice((0, 0, 5)), progress=progress)
    except Gone:
        return "gone"
    if found.positions["index"].max() is None:
        raise AssertionError("an answer has no positions")
    if rng.random() >= save:
        return "answered"
    found.save("kept")
    return "saved"


class Clients:
    """Threads that ask until they are told to end. What a killed process leaves unanswered is counted; anything else ends them, and is raised at the end."""

    def __init__(self, path: Path, n: int, seed: int, save: float) -> None:
        self.path, self.save, self.counts = path, save, Counter[str]()
        self.over, self.failed = threading.Event(), list[BaseException]()
        self.threads = [threading.Thread(target=self.ask_on, args=(random.Random(f"{seed} {i}"),)) for i in range(n)]

    def __enter__(self) -> "Clients":
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join()
        if self.failed:
            raise self.failed[0]

    def ask_on(self, rng: random.Random) -> None:
        try:
            with atlas.open(self.path) as a:
                while not self.over.is_set():
                    self.counts[self.asked(a, rng)] += 1
        except BaseException as error:
            self.failed.append(error)

    def asked(self, a: atlas.Atlas, rng: random.Random) -> str:
        try:
            return ask_once(a, rng, self.save)
        except AtlasError as error:
            if "ended before it answered" in str(error) or "did not start: it wrote no output" in str(error):
                return "cut"
            raise
