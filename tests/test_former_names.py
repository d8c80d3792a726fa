"""Names that other distributions may import, and that this version still has: each is what it was renamed to."""

from importlib import import_module

import pytest

FORMER = {
    "schema.beside.Beside": "schema.open.kinds.Companion",
    "atlas.experiments.store.save": "atlas.beside.experiments.store.save",
    "atlas.experiments.store.unfinished": "atlas.beside.experiments.store.find_unfinished",
    "atlas.live.SwitchedOff": "atlas.live.SwitchOffResult",
    "ingest.passes.base.Probe": "ingest.passes.base.CostSample",
    "ingest.model.facts.of": "ingest.model.facts.config_attribute",
    "ingest.model.facts.always": "ingest.model.facts.constant_fact",
    "ingest.model.families.llama.FAMILY": "ingest.model.families.llama.LLAMA",
    "ingest.experiments.base.World": "ingest.experiments.base.ExperimentContext",
    "ingest.experiments.base.Found": "ingest.experiments.base.PartResult",
    "ingest.experiments.fields.setting": "schema.fields.setting",
    "ingest.experiments.asked.SubjectPrompt": "ingest.experiments.prompt_types.SubjectPrompt",
}


def named(path: str) -> object:
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


@pytest.mark.parametrize("former", FORMER)
def test_a_former_name_is_what_it_was_renamed_to(former: str) -> None:
    assert named(former) is named(FORMER[former])


def test_a_family_still_has_the_name_of_its_former_module() -> None:
    from ingest.model.families import gemma3_text, qwen2
    from ingest.model.families.llama import FAMILIES

    assert (FAMILIES["qwen2"], FAMILIES["gemma3_text"]) == (qwen2.FAMILY, gemma3_text.FAMILY)
    with pytest.raises(ImportError, match="cannot import name 'qwen0'"):
        from ingest.model.families import qwen0  # noqa: F401
