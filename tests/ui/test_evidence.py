"""The room of evidence on the tiny atlas, which has every pass: each topic, its sentences, and what is said where something is missing."""

from pathlib import Path

import pytest

from tests.atlas.experiments.tiny_experiments import write_tiny_experiments
from tests.atlas.retrieval.tiny_retrievals import write_tiny_retrievals
from tests.ui.conftest import Visit, text_of
from ui.evidence.topics import TOPICS

PANELS = [panel for topic in TOPICS.values() for panel in topic.panels]


@pytest.fixture
def whole(tiny: Path) -> Path:
    """With its experiments and retrievals."""
    write_tiny_experiments(tiny)
    write_tiny_retrievals(tiny)
    return tiny


@pytest.mark.parametrize("name", TOPICS)
def test_every_topic_answers_each_of_its_questions(visit: Visit, whole: Path, name: str) -> None:
    app = visit(whole, "evidence", show=name)
    said = text_of(app)
    assert not app.exception and not app.error, said
    assert TOPICS[name].heading in said
    assert "Not here yet" not in said
