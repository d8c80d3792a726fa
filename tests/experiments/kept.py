"""What lies in a file of experiments of one of them, and specs of every kind."""

from pathlib import Path
from typing import Any

import duckdb
import torch

import atlas
from atlas.beside.experiments import EXPERIMENTS
from schema.audits import companion_metadata
from tests.experiments.conftest import World

TABLES = [table.name for table in companion_metadata(EXPERIMENTS).tables.values() if "experiment_id" in table.c]


def kept(path: Path, experiment_id: int) -> dict[str, list[tuple[Any, ...]]]:
    """All rows but when they were made."""
    found = {}
    with atlas.open(path) as a:
        for table in TABLES:
            but = "experiment_id, started_at, finished_at" if table == "experiment" else "experiment_id"
            found[table] = a.sql(f"SELECT * EXCLUDE ({but}) FROM experiments.{table} WHERE experiment_id = {experiment_id} ORDER BY ALL").rows()
    return found


def foil(world: World, text: str, corrupted: str, answer: str) -> str:
    """A word whose logit moves otherwise than the answer's from one text to the other."""
    tokenizer = world.tiny.tokenizer

    def ids(of: str) -> list[int]:
        return tokenizer(of, add_special_tokens=False)["input_ids"]

    with torch.inference_mode():
        clean, other = (world.tiny.hf(torch.tensor([[world.tiny.bos, *ids(one)]])).logits[0, -1] for one in (text, corrupted))
    moved = clean - other
    apart = (moved - moved[ids(answer)[0]]).abs()
    found = [token for token in apart.argsort(descending=True).tolist() if ids(corrupted + tokenizer.decode([token])) == [*ids(corrupted), token]]
    assert apart[found[0]] > 0.5
    return tokenizer.decode([found[0]])


def word_lists(con: duckdb.DuckDBPyConnection) -> tuple[list[str], list[str]]:
    """Words that one value promotes, for the concept of a suppression, and those of another, which are unwanted."""
    found = con.execute(
        "SELECT list(trim(text) ORDER BY rank) AS words FROM value_token INNER JOIN token USING (token_id) "
        "WHERE direction = 'promoted' AND regexp_matches(text, '^ [a-z]+$') GROUP BY layer, neuron ORDER BY len(words) DESC, layer, neuron LIMIT 2"
    ).fetchall()
    (unwanted,), (concept,) = found
    return [word for word in concept if word not in unwanted], unwanted


def specs(world: World) -> dict[str, dict[str, Any]]:
    subjects = world.prompts(2)
    texts = [{"text": one["text"], "answer": one["answer"]} for one in subjects]
    # one token for another
    corrupted = f"{texts[0]['text'][:-1]}Q"
    pair = texts[0] | {"corrupted": corrupted, "foil": foil(world, texts[0]["text"], corrupted, texts[0]["answer"])}
    return {
        "tracing": {"kind": "tracing", "title": "t", "seed": 3, "settings": {"draws": 2, "window": 2, "every": 2}, "prompts": subjects},
        "knockout": {"kind": "knockout", "title": "k", "settings": {"window": 2}, "prompts": subjects},
        "patching": {"kind": "patching", "title": "p", "settings": {"every": 2}, "prompts": [pair]},
        "saliency": {"kind": "saliency", "title": "s", "settings": {"scores": ["prob", "logit_difference"]}, "prompts": texts[:1]},
    }
