"""When positions are predicted, and what counting is refused for."""

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from ingest.cli import ingest
from ingest.passes import passes
from schema.errors import AtlasError
from tests.exact.tiny import asked, make, run

NGRAM = passes()["ngram"]
PREDICTION = passes()["prediction"]

torch.set_num_threads(1)


@pytest.mark.parametrize(
    ("options", "is_wanted"),
    [
        ({"triggers": 5, "prediction": None}, True),
        ({"triggers": 0, "prediction": None}, False),
        ({"triggers": 5, "prediction": False}, False),
        ({"triggers": 0, "prediction": True}, True),
    ],
)
def test_predictions_come_with_a_sweep_unless_it_is_said_otherwise(options: dict, is_wanted: bool) -> None:
    assert PREDICTION.is_wanted(asked(Path("a.duckdb"), "model", "text", **options)) is is_wanted
    assert not PREDICTION.is_wanted(asked(Path("a.duckdb"), "model", None, **options))


def test_predictions_without_a_corpus_are_refused() -> None:
    said = CliRunner().invoke(ingest, ["a.duckdb", "--model", "m", "--prediction"])
    assert said.exit_code == 2
    assert "--prediction needs --corpus" in said.output


@pytest.mark.parametrize(
    ("corpus", "options", "said"),
    [
        (None, {"ngram_split": "train"}, "need --corpus"),
        ("-", {"ngram_split": "train"}, "standard input, which can be read only once"),
        ("text.txt", {"ngram_corpus": "-"}, "standard input, which can be read only once"),
    ],
)
def test_text_that_cannot_be_counted_is_refused(corpus: str | None, options: dict, said: str) -> None:
    request = asked(Path("a.duckdb"), "model", corpus, **options)
    assert NGRAM.is_wanted(request)
    with pytest.raises(AtlasError, match=said):
        NGRAM.check(request)


def test_a_corpus_is_not_predicted_by_its_own_counts(tmp_path: Path) -> None:
    tiny = make(tmp_path, "gpt2", ["The people of the world.", "The union of the people."])
    request = tiny.request(tmp_path / "a.duckdb", trace=0, triggers=0, paper=False, ngram_corpus=str(tiny.corpus))
    with pytest.raises(AtlasError, match="has no text to count in: all of its documents are to be predicted"):
        run(request)
