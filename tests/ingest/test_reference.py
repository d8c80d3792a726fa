"""The reference models: how they are trained, what they are compared with, and that what is committed is what its card says."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, OPTConfig, OPTForCausalLM, PreTrainedTokenizerFast

from ingest.model.checks import check_attention, check_identities
from ingest.model.models import Model, load_model
from ingest.model.reference import FOLDERS, NAMES, probe, train
from ingest.model.reference.baselines import Trigram, unigram_loss
from ingest.model.reference.data import BLOCK, N_TIMES, batch, epoch, repeated_batch, windows
from ingest.model.reference.recipe import CONTEXT
from ingest.model.reference.recipes import OPT, RECIPES
from ingest.text.corpora import open_corpus
from schema.errors import AtlasError
from tests.ingest.head_oracle import eager_patterns, plain_losses
from tests.ingest.tiny_models import with_facts

BOS = 0

SMALL = replace(OPT, batch_size=1, check_steps=1, vocabulary=12)
FOLDER = FOLDERS["reference"]


@pytest.fixture(scope="module")
def reference() -> Model:
    return load_model("reference", revision=None, dtype="float32", device="cpu")


def test_windows_read_every_token_once_behind_bos() -> None:
    speech = torch.arange(1, 2 * CONTEXT + 10)
    cut = list(windows(speech, BOS))
    assert all(w[0] == BOS and len(w) <= CONTEXT for w in cut)
    assert torch.cat([w[1:] for w in cut]).equal(speech)


@pytest.mark.parametrize("n_repeated", [0, 600])
def test_an_epoch_shuffles_windows_and_depends_on_its_generator_alone(n_repeated: int) -> None:
    speeches = [torch.arange(1, 1000), torch.arange(1000, 1500)]
    recipe = replace(OPT, batch_size=2, n_repeated=n_repeated)
    first, again, other = (list(epoch(speeches, BOS, np.random.default_rng(seed), recipe)) for seed in (0, 0, 1))
    assert all(a.equal(b) and x.equal(y) for (a, x), (b, y) in zip(first, again, strict=True))
    assert not all(a.shape == b.shape and a.equal(b) for (a, _), (b, _) in zip(first, other, strict=False))
    seen = torch.cat([inputs[:, 0] for inputs, _ in first])
    assert set(seen.tolist()) == {BOS}
    text = first[::2] if n_repeated else first
    assert sum(int((targets >= 0).sum()) for _, targets in text) == pytest.approx(1500, abs=2 * CONTEXT)
    assert all(n_repeated / 2 < inputs.numel() <= n_repeated for inputs, _ in first[1::2]) or not n_repeated


def test_rows_that_repeat_are_a_block_of_different_tokens_again_and_again() -> None:
    rng, lengths = np.random.default_rng(0), set()
    for _ in range(300):
        inputs, targets = repeated_batch(600, 300, BOS, rng)
        size = next(n for n in range(1, CONTEXT) if inputs[:, 1 + n :].equal(inputs[:, 1:-n]))
        assert set(inputs[:, 0].tolist()) == {BOS} and inputs[:, 1:].equal(targets[:, :-1]) and inputs.shape[1] == min(CONTEXT, 1 + N_TIMES * size) - 1
        assert all(len(set(block)) == size and BOS not in block and max(block) < 300 for block in inputs[:, 1 : 1 + size].tolist())
        lengths.add(size)
    assert min(lengths) == BLOCK[0] and max(lengths) in range(BLOCK[1] - 5, BLOCK[1])


def test_a_batch_predicts_the_following_token_and_nothing_in_padding() -> None:
    inputs, targets = batch([torch.tensor([0, 5, 6, 7]), torch.tensor([0, 8])])
    assert inputs.tolist() == [[0, 5, 6], [0, 8, 0]]
    assert targets.tolist() == [[5, 6, 7], [8, -100, -100]]


def test_unigram_loss_by_hand() -> None:
    # counts of a 3-word vocabulary over 1 1 2, plus one each: 1/6, 3/6, 2/6
    assert unigram_loss([[1, 1, 2]], [[1, 0]], 3) == pytest.approx(-(math.log(3 / 6) + math.log(1 / 6)) / 2)


def test_trigram_probabilities_sum_to_one_and_agree_with_a_pencil() -> None:
    model = Trigram([[1, 2, 1, 2], [1, 3]], BOS, 5)
    for u, v in [(0, 0), (0, 1), (1, 2), (2, 1), (4, 4), (3, 4)]:
        assert sum(model.probability(u, v, w) for w in range(5)) == pytest.approx(1)
    # trigrams 001 ×2, 012, 121, 212, 013; kinds of bigrams: 01, 12, 21, 13, each after this many contexts: 1, 2, 1, 1
    # p(2): 1 of 4 bigram kinds ends in 2: (1 - 3/4) / 4 + 3/4 · 3/4 · 1/5
    p2 = 0.25 / 4 + 0.75 * 3 / 4 / 5
    # p(2 | 1): 2 of the 3 contexts, with 2 kinds after 1
    p12 = 1.25 / 3 + 0.75 * 2 / 3 * p2
    # p(2 | 0 1): once of twice, with 2 kinds
    assert model.probability(0, 1, 2) == pytest.approx(0.25 / 2 + 0.75 * 2 / 2 * p12)


def small(seed: int = 0) -> OPTForCausalLM:
    torch.manual_seed(seed)
    config = OPTConfig(
        vocab_size=12, hidden_size=16, word_embed_proj_dim=16, ffn_dim=32, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=CONTEXT,
        dropout=0.0, bos_token_id=0, eos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    return OPTForCausalLM(config)


@pytest.mark.thorough
def test_a_step_lowers_the_loss_of_its_own_batch() -> None:
    model = small()
    state = train.begin(model, 2e-3)
    inputs, targets = batch([torch.tensor([0, *range(1, 12)])])
    losses = [train.step(state, inputs, targets) for _ in range(60)]
    assert losses[-1] < losses[0] / 2


def test_training_ends_when_two_checks_hardly_lowers_the_validation_loss_and_keeps_the_lowest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two checks: what came after 4.5 lowers it to 4.0, what came after that to 3.9985, and the last pass by half a thousandth."""
    script = [5.0, 4.6, 4.7, 4.5, 4.0, 4.2, 3.9985, 4.1, 3.998]
    measured = iter([*script, 0.0])
    means: list[torch.Tensor] = []

    def scripted(mean: OPTForCausalLM, *_: object) -> float:
        means.append(mean.lm_head.weight.clone())
        return next(measured)

    monkeypatch.setattr(train, "mean_loss", scripted)
    said: list[str] = []
    kept: list[torch.Tensor] = []
    speech = torch.arange(1, 12).repeat(60)
    speeches = train.Speeches([speech], [speech], BOS)
    state = train.train(small(), SMALL, speeches, 0, said.append, lambda best: kept.append(best.lm_head.weight.clone()), tmp_path / "training.pt")
    assert [loss for _, _, loss in state.losses] == script
    assert [step for step, _, _ in state.losses] == list(range(1, 1 + len(script)))
    assert len(said) == len(script)
    assert [next(i for i, mean in enumerate(means) if mean.equal(k)) for k in kept] == [0, 1, 3, 4, 6, 8]


def test_training_that_is_interrupted_goes_on_to_the_same_end(tmp_path: Path) -> None:
    """To the bit; with dropout, which draws from torch's generator, and with rows that repeat, which draw from that of the order."""
    recipe = replace(SMALL, n_repeated=40, check_steps=2, max_steps=12, min_fall=None, is_probed=True)
    speech = torch.arange(1, 12).repeat(60)
    speeches = train.Speeches([speech], [speech], BOS)

    def model() -> OPTForCausalLM:
        made = small()
        for module in made.modules():
            if hasattr(module, "dropout"):
                module.dropout = 0.1
        torch.manual_seed(1)
        return made

    def stop(_: str) -> None:
        stopped.append(None)
        if len(stopped) == 4:
            raise KeyboardInterrupt

    straight = train.train(model(), recipe, speeches, 0, lambda _: None, lambda _: None, tmp_path / "straight.pt")
    stopped: list[None] = []
    with pytest.raises(KeyboardInterrupt):
        train.train(model(), recipe, speeches, 0, stop, lambda _: None, tmp_path / "training.pt")
    other = model()
    torch.manual_seed(5)
    again = train.train(other, recipe, speeches, 0, lambda _: None, lambda _: None, tmp_path / "training.pt")
    assert len(straight.losses) == 6 and again.losses == straight.losses
    assert len(straight.probes) == 6 and again.probes == straight.probes and again.n_tokens == straight.n_tokens
    assert all(a.equal(b) for a, b in zip(again.mean.parameters(), straight.mean.parameters(), strict=True))


def test_what_is_measured_is_the_running_mean_of_the_weights() -> None:
    """The first step's weights, then 0.999 of what there was and 0.001 of what each further step reached."""
    state = train.begin(small(), 2e-3)
    inputs, targets = batch([torch.tensor([0, *range(1, 12)])])
    expected = None
    for _ in range(3):
        train.advance(state, iter([(inputs, targets)]), 1)
        now = state.model.lm_head.weight.detach().double()
        expected = now if expected is None else 0.999 * expected + 0.001 * now
    assert expected is not None
    torch.testing.assert_close(state.mean.lm_head.weight.double(), expected, rtol=0, atol=1e-7)
    assert not torch.allclose(expected, now, rtol=0, atol=1e-5)


def test_recipes_are_those_of_the_models_that_come_with_the_project() -> None:
    assert tuple(RECIPES) == NAMES and set(FOLDERS) == {*NAMES, "reference"}
    assert all((FOLDERS[name] / "config.json").is_file() for name in NAMES)


@pytest.mark.thorough
@pytest.mark.parametrize("n_layers", [1, 2])
def test_an_attention_only_model_learns_and_its_ffns_stay_zero(n_layers: int) -> None:
    recipe = RECIPES[f"attention-{n_layers}l-sotu"]
    torch.manual_seed(0)
    model = recipe.new_model(BOS)
    before = {name: p.clone() for name, p in model.named_parameters()}
    state = train.begin(model, recipe.learning_rate)
    rows = repeated_batch(100, recipe.vocabulary, BOS, np.random.default_rng(0))
    losses = [train.step(state, *rows) for _ in range(12)]
    assert losses[-1] < losses[0] - 1
    for name, parameter in model.named_parameters():
        if ".mlp." in name:
            assert parameter.count_nonzero() == 0
        else:
            assert parameter.equal(before[name]) == ("post_attention_layernorm" in name), name
    rows_of_tokens = before["model.embed_tokens.weight"]
    assert rows_of_tokens.mean(0).norm() > rows_of_tokens.std(0).norm() / 2
    assert model.config.num_hidden_layers == n_layers and not model.config.tie_word_embeddings


def test_a_probe_measures_what_plain_attention_shows() -> None:
    torch.manual_seed(0)
    model = RECIPES["attention-2l-sotu"].new_model(BOS)
    for parameter in model.parameters():
        parameter.requires_grad_(False).mul_(6)
    found, rows = probe.measure(model, 7, BOS), probe.probe_rows(768, BOS)
    assert rows.shape == (10, 101) and (rows[:, 1:51] == rows[:, 51:]).all() and (rows[:, 0] == BOS).all() and BOS not in rows[:, 1:]
    patterns = np.mean([eager_patterns(model, row) for row in rows], axis=0)
    induction, previous = np.zeros((2, 4)), np.zeros((2, 4))
    for i in range(1, 101):
        previous += patterns[:, :, i, i - 1] / 100
        # what follows the first copy of token i, which stands at i - 50
        induction += patterns[:, :, i, i - 49] / 50 if i > 50 else 0
    losses = plain_losses(model, rows.tolist())
    best = [(scores.max(), *np.unravel_index(scores.argmax(), scores.shape)) for scores in (induction, previous)]
    assert found == pytest.approx((7, losses[:, :50].mean(), losses[:, 50:].mean(), *best[0], *best[1]), rel=1e-4)
    assert model.config._attn_implementation == "sdpa"


def test_a_curve_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert probe.read_curve(tmp_path) == []
    curve = [probe.Probe(step, 6.5, 6.25, 0.125, 1, 2, 0.5, 0, 3) for step in (200, 400)]
    probe.write_curve(tmp_path, curve)
    assert probe.read_curve(tmp_path) == curve


@pytest.mark.parametrize("n_layers", [1, 2])
def test_the_attention_only_models_are_llamas_that_keep_the_identities(n_layers: int) -> None:
    model = load_model(f"attention-{n_layers}l-sotu", revision=None, dtype="float32", device="cpu")
    assert (model.name, model.model_type, model.n_layers, model.d_ffn) == (f"attention-{n_layers}l-sotu", "llama", n_layers, 1)
    assert (FOLDERS[model.name] / "model.safetensors").stat().st_size <= 2e6
    assert max(check_identities(model).values()) < 1e-4
    assert max(check_attention(model).values()) < 1e-4


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"attention__o": "self_attn.q_proj"}, r"heads \+ attention bias = attn_out fails at layer 0"),
        ({"attention__rotary": None}, "pattern @ values = what heads gathered fails at layer 0"),
    ],
)
def test_the_identities_of_heads_are_asked_of_attention_alone_too(facts: dict, said: str) -> None:
    wrong = with_facts(load_model("attention-2l-sotu", revision=None, dtype="float32", device="cpu"), **facts)
    check_identities(wrong)
    with pytest.raises(AtlasError, match=said):
        check_attention(wrong)


def test_mean_loss_agrees_with_one_window_at_a_time() -> None:
    model = small().eval()
    speeches = [torch.arange(1, 12).repeat(40), torch.tensor([3, 4, 5])]
    total, n = 0.0, 0
    for speech in speeches:
        for window in windows(speech, BOS):
            logits = model(window[None, :-1]).logits[0].log_softmax(-1)
            total -= sum(logits[i, token].item() for i, token in enumerate(window[1:]))
            n += len(window) - 1
    assert train.mean_loss(model, speeches, BOS) == pytest.approx(total / n, rel=1e-5)


def test_the_reference_model_is_an_ungated_relu_decoder_that_keeps_the_identities(reference: Model) -> None:
    assert (reference.model_type, reference.activation, reference.is_gated, reference.is_tied) == ("opt", "relu", False, True)
    check_identities(reference)


def test_the_weights_are_float16_and_no_more_than_16_megabytes() -> None:
    assert (FOLDER / "model.safetensors").stat().st_size <= 16e6
    assert AutoModelForCausalLM.from_pretrained(FOLDER, dtype="auto").dtype == torch.float16


def test_its_tokenizer_begins_every_text_with_bos(reference: Model) -> None:
    tokenizer: PreTrainedTokenizerFast = reference.tokenizer
    ids = tokenizer("The state of the Union.")["input_ids"]
    assert ids[0] == tokenizer.bos_token_id
    assert tokenizer.decode(ids[1:]) == "The state of the Union."


def card_row(name: str, split: str) -> list[float]:
    """Perplexities of the model, the unigram and the trigram."""
    row = re.search(rf"\| {split} \| \d+ \| [\d,]+ \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|", (FOLDERS[name] / "README.md").read_text())
    assert row is not None
    return [float(x) for x in row.groups()]


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_the_card_says_what_the_committed_weights_do(name: str, tmp_path: Path) -> None:
    """Validation perplexity, one window at a time with nothing but transformers."""
    hf, tokenizer = AutoModelForCausalLM.from_pretrained(FOLDERS[name], dtype=torch.float32), AutoTokenizer.from_pretrained(FOLDERS[name])
    total, n = 0.0, 0
    for document in open_corpus("sotu", split="validation", spool=tmp_path).documents():
        ids = tokenizer(document.text, add_special_tokens=False)["input_ids"]
        for start in range(0, len(ids) - 1, CONTEXT - 1):
            window = torch.tensor([[tokenizer.bos_token_id, *ids[start : start + CONTEXT - 1]]])
            with torch.inference_mode():
                loss = hf(window, labels=window).loss.item()
            total, n = total + loss * (window.shape[1] - 1), n + window.shape[1] - 1
    perplexity, unigram, trigram = card_row(name, "validation")
    assert math.exp(total / n) == pytest.approx(perplexity, abs=0.06)
    assert max(perplexity, trigram) < unigram
    # the small ones are behind three counted tokens
    assert (perplexity < trigram) == (name == "opt-sotu")
