"""A family of another distribution is found by its entry point, and keeps the contract that ours do."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from ingest.model.architectures import ARCHITECTURES, architectures
from ingest.model.checks import check_identities
from ingest.model.families import gpt, llama
from schema.errors import AtlasError
from schema.registry import list_folder
from tests.ingest.attention_oracle import eager_model
from tests.ingest.other_families import FAMILIES
from tests.ingest.test_heads import errors

torch.set_num_threads(1)

TWICE = {"llama": ARCHITECTURES["llama"]}
NO_FAMILIES = ["llama"]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator:
    """Installs a distribution whose entry point has this value."""

    def install(value: str) -> None:
        folder = tmp_path / "other_families-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: other-families\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(f"[activation_atlas.architectures]\nothers = {value}\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        architectures.cache_clear()

    yield install
    architectures.cache_clear()


@pytest.mark.parametrize("changes", [{}, {"use_parallel_residual": True}])
def test_a_family_of_another_distribution_is_read_and_proven_as_ours_are(installed, changes: dict) -> None:
    with pytest.raises(KeyError):
        eager_model("stablelm")
    installed("tests.ingest.other_families:FAMILIES")
    assert set(architectures()) == {*ARCHITECTURES, *FAMILIES}
    model = eager_model("stablelm", **changes)
    assert max(check_identities(model).values()) < 2e-6
    assert max(errors(model).values()) < 1e-5


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            "tests.ingest.test_families:TWICE",
            "'llama' is brought twice, by activation-atlas itself and by the entry point others = .*TWICE of activation_atlas.architectures",
        ),
        (
            "tests.ingest.test_families:NO_FAMILIES",
            r"NO_FAMILIES of .* \(other-families 1.0\) is broken: NO_FAMILIES is no mapping from model_type to Architecture",
        ),
    ],
)
def test_what_is_no_new_family_is_refused_by_the_name_of_its_entry_point(installed, value: str, said: str) -> None:
    installed(value)
    with pytest.raises(AtlasError, match=said):
        architectures()


def test_no_family_is_in_two_files(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ARCHITECTURES.items() >= {**gpt.FAMILIES, **llama.FAMILIES}.items()
    monkeypatch.setitem(llama.FAMILIES, "gpt2", llama.LLAMA)
    with pytest.raises(ValueError, match="ingest.model.families.llama names again gpt2"):
        list_folder("ingest.model.families", "FAMILIES")
