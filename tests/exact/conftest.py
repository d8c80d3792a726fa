"""What several tests of exactness read."""

import pytest
import torch

from tests.exact.checks import Case
from tests.exact.crafted import crafted_case
from tests.exact.trained import trained_case

torch.set_num_threads(1)


@pytest.fixture(scope="session", params=[crafted_case, pytest.param(trained_case, marks=pytest.mark.long)], ids=["crafted", "reference"])
def c(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """A model's atlas beside its brute-force reference."""
    return request.param(tmp_path_factory.mktemp("papers"))
