"""No question is forgotten when all are timed."""

import pytest

import atlas
from atlas.questions import questions
from tests.benchmarks.latency import example_arguments


@pytest.mark.thorough
@pytest.mark.parametrize("name", questions())
def test_every_question_can_be_timed(a: atlas.Atlas, name: str) -> None:
    assert a.ask(name, **example_arguments(a)[name]).width > 0
