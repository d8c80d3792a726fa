"""The paper run of the reference model against the model run again on every shortened text."""

from collections.abc import Callable

import pytest

from tests.exact.checks import Case
from tests.exact.paper_checks import (
    check_clusters,
    check_control_updates,
    check_next_token_ranks,
    check_paper_run,
    check_redrawn_vectors,
    check_removal,
)
from tests.exact.trained import trained_case

CHECKS = (check_paper_run, check_removal, check_next_token_ranks, check_control_updates, check_redrawn_vectors, check_clusters)


@pytest.mark.ci_cases(2)
@pytest.mark.thorough
@pytest.mark.parametrize("c", [trained_case], indirect=True, ids=["reference"])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_what_is_published_equals_the_brute_force_reference(c: Case, check: Callable[[Case], None]) -> None:
    check(c)
