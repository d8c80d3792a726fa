"""Sentences of tests, read: every score against transformers and numpy in float64, by code of this file; and what a stopped run ends with."""

import re
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from scipy.spatial.distance import jensenshannon
from transformers import PreTrainedModel

from ingest.recorders import suite_rows
from ingest.suite_cli import test as command
from schema.audits import run_audits
from schema.errors import AtlasError
from schema.open.store import open_reader
from tests.exact.published import OF_SUITES
from tests.exact.tiny import Tiny, asked, make, run
from tests.ingest.suite_files import FORMULAS, GYM, PAIRS, written_suite

torch.set_num_threads(1)

VALUES = {
    "gpt2": lambda hf: [(b.mlp.c_proj, b.mlp.c_proj.weight) for b in hf.transformer.h],
    "llama": lambda hf: [(b.mlp.down_proj, b.mlp.down_proj.weight.T) for b in hf.model.layers],
    "gemma2": lambda hf: [(b.mlp.down_proj, b.mlp.down_proj.weight.T * (1 + b.post_feedforward_layernorm.weight)) for b in hf.model.layers],
    "opt": lambda hf: [(b.fc2, b.fc2.weight.T) for b in hf.model.decoder.layers],
}
"""What multiplies coefficients with values, and the values, [d_ffn, d_model], with the gain of a norm behind the FFN."""
FAMILIES = tuple(VALUES)


class Read:
    """What transformers says of a sentence behind <s>: its tokens, the characters that each ends at, log-probabilities [n + 1, d_vocab] in float64."""

    def __init__(self, tiny: Tiny, hf: PreTrainedModel, text: str) -> None:
        ids = tiny.tokenizer(text, add_special_tokens=False).input_ids
        self.text, self.ids = text, np.array(ids)
        self.ends = np.cumsum([len(token) for token in tiny.tokenizer.convert_ids_to_tokens(ids)])
        with torch.no_grad():
            logits = hf(torch.tensor([[0, *ids]])).logits[0].double().numpy()
        below = logits - logits.max(1, keepdims=True)
        self.logs = below - np.log(np.exp(below).sum(1, keepdims=True))
        self.own = self.logs[np.arange(len(ids)), self.ids]

    def inside(self, start: int, end: int) -> np.ndarray:
        """Which tokens lie in these characters; a leading space belongs to the word behind it."""
        starts = np.concatenate([[0], self.ends[:-1]])
        first = [s + len(self.text[s:e]) - len(self.text[s:e].lstrip()) for s, e in zip(starts, self.ends, strict=True)]
        return np.array([start <= place < end for place in first])


class Asked:
    """An atlas of a suite, and the model that it is of."""

    def __init__(self, tiny: Tiny, path: Path, family: str) -> None:
        self.tiny, self.path, self.family, self.hf = tiny, path, family, tiny.hf.double()
        self.read: dict[str, Read] = {}

    def of(self, text: str) -> Read:
        if text not in self.read:
            self.read[text] = Read(self.tiny, self.hf, text)
        return self.read[text]

    def rows(self, sql: str) -> list[tuple]:
        with closing(open_reader(self.path)) as con:
            return con.execute(sql).fetchall()


def suite_request(tiny: Tiny, target: Path, suite: tuple[str, ...], **changes: object):
    options = {"prediction": True, "bos": "start", "context": 64, "batch_size": 3, "shard_positions": 100, "seed": 7, **changes}
    return asked(target, str(tiny.folder), "suite", suite=suite, **options)


@pytest.fixture(scope="module", params=[FAMILIES[0], *(pytest.param(family, marks=pytest.mark.thorough) for family in FAMILIES[1:])])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Asked:
    folder = tmp_path_factory.mktemp(request.param)
    return ingested(folder, request.param)


def ingested(folder: Path, family: str) -> Asked:
    tiny = make(folder, family)
    return Asked(tiny, run(suite_request(tiny, folder / "a.duckdb", written_suite(folder))), family)


SENTENCE = "SELECT text, logprob, n_tokens, critical_logprob FROM scored_sentence WHERE paradigm = '{}' AND item = '{}' AND role = '{}' ORDER BY document_id"


@pytest.mark.ci_cases(1)
@pytest.mark.thorough
def test_a_pairs_scores_are_plain_sums_of_log_softmax(made: Asked) -> None:
    for row in PAIRS:
        for role in ("good", "bad"):
            text = row[f"sentence_{role}"]
            ((stored, logprob, n, _),) = made.rows(SENTENCE.format(row["UID"], row["pairID"], role))
            assert (stored, n) == (text, len(made.of(text).ids))
            assert logprob == pytest.approx(made.of(text).own.sum(), rel=1e-5)
    lengths = [{len(made.of(row[f"sentence_{role}"]).ids) for role in ("good", "bad")} for row in PAIRS]
    assert sum(len(n) == 2 for n in lengths) >= 2


def test_the_first_token_is_scored(made: Asked) -> None:
    """The pairs that differ in it alone would be ties without."""
    good, bad = (made.of(PAIRS[2][f"sentence_{role}"]) for role in ("good", "bad"))
    ((margin, is_right),) = made.rows("SELECT margin, is_right FROM scored_item WHERE paradigm = 'two'")
    assert margin == pytest.approx(good.own.sum() - bad.own.sum(), rel=1e-4)
    assert abs(good.own[0] - bad.own[0]) > 1e-3
    assert is_right == (margin > 0)


@pytest.mark.ci_cases(1)
@pytest.mark.thorough
def test_critical_regions_are_the_words_in_which_a_pair_differs(made: Asked) -> None:
    spans = {("one", "0", "good"): (4, 24), ("one", "0", "bad"): (4, 38), ("two", "0", "good"): (0, 3), ("two", "0", "bad"): (0, 1)}
    for (paradigm, item, role), span in spans.items():
        ((text, _, _, critical),) = made.rows(SENTENCE.format(paradigm, item, role))
        read = made.of(text)
        assert critical == pytest.approx(read.own[read.inside(*span)].sum(), rel=1e-5)
    # no word is left of the shorter one
    assert [row[3] for row in made.rows(SENTENCE.format("one", "1", "good")) + made.rows(SENTENCE.format("one", "2", "bad"))] == [None, None]


@pytest.mark.thorough
def test_of_a_winograd_pair_what_follows_the_choice_is_scored_alone(made: Asked) -> None:
    texts = {role: f"The people of the union and the world: the {choice} speak first." for role, choice in (("good", "people"), ("bad", "world"))}
    for role, text in texts.items():
        ((stored, logprob, n, _),) = made.rows(SENTENCE.format("winograd", "q", role))
        read = made.of(text)
        behind = read.inside(len(text) - len(" speak first."), len(text))
        assert (stored, n) == (text, behind.sum())
        assert logprob == pytest.approx(read.own[behind].sum(), rel=1e-5)


@pytest.mark.thorough
def test_formulas_hold_where_sums_of_surprisals_say_so(made: Asked) -> None:
    for item in GYM["items"]:
        surprisal = {}
        for condition in item["conditions"]:
            contents = [region["content"] for region in condition["regions"] if region["content"]]
            read, end = made.of(" ".join(contents)), 0
            surprisal[condition["condition_name"], "*"] = -read.own.sum()
            for number, content in enumerate(contents, start=1):
                surprisal[condition["condition_name"], str(number)] = -read.own[read.inside(end, end + len(content))].sum()
                end += len(content) + 1
        match, other = ({name: s for (role, name), s in surprisal.items() if role == which} for which in ("match", "mismatch"))
        first = other["2"] - match["2"]
        second = max(match["3"] + match["1"] - other["1"] - 0.5, other["*"] - match["*"])
        ((margin, is_right),) = made.rows(f"SELECT margin, is_right FROM scored_item WHERE paradigm = 'number' AND item = '{item['item_number']}'")
        assert margin == pytest.approx(min(first, second), rel=1e-4, abs=1e-4)
        assert is_right == (first > 0 and second > 0)
    assert made.rows("SELECT DISTINCT expectation FROM test_item WHERE kind = 'region'") == [("\n".join(FORMULAS),)]


@pytest.mark.ci_cases(1)
@pytest.mark.thorough
def test_templates_compare_continuations_and_directions(made: Asked) -> None:
    for kind in ("mft", "dir"):
        items: dict[str, dict[str, list[float]]] = {}
        for item, role, text, logprob, name in made.rows(
            f"SELECT s.item, s.role, s.text, s.logprob, d.name FROM scored_sentence AS s INNER JOIN document AS d USING (document_id) WHERE s.kind = '{kind}'"
        ):
            ending = " of the world" if kind == "dir" else text[text.rindex(" ") :]
            read = made.of(text)
            exact = read.own[read.inside(len(text) - len(ending), len(text))].sum()
            assert logprob == pytest.approx(exact, rel=1e-5), name
            items.setdefault(item, {}).setdefault(role, []).append(exact)
        assert len(items) == (4 if kind == "mft" else 2)
        for item, found in items.items():
            exact = found["original"][0] - found["changed"][0] - 0.01 if kind == "dir" else found["expected"][0] - max(found["rival"])
            ((margin, is_right),) = made.rows(f"SELECT margin, is_right FROM scored_item WHERE kind = '{kind}' AND item = '{item}'")
            assert margin == pytest.approx(exact, rel=1e-4, abs=1e-4)
            assert is_right == (exact > 0)


@pytest.mark.thorough
def test_divergences_are_those_of_the_predictions_at_the_end(made: Asked) -> None:
    found = made.rows(
        "SELECT o.item, o.perturbation, a.text, b.text, o.divergence, o.is_top_kept FROM perturbation_outcome AS o"
        " INNER JOIN document AS a ON o.document_id = a.document_id INNER JOIN document AS b ON o.original_document_id = b.document_id"
    )
    assert {row[1] for row in found} == {"letters", "case", "space", "contraction", "synonym"}
    for _, _, text, original, divergence, is_kept in found:
        assert text != original
        one, other = (made.of(each).logs[-1] for each in (text, original))
        assert divergence == pytest.approx(jensenshannon(np.exp(one), np.exp(other)) ** 2, rel=1e-3, abs=1e-6)
        assert is_kept == (one.argmax() == other.argmax())
    for item in {row[0] for row in found}:
        passes = all(kept and divergence < np.float32(0.05) for i, _, _, _, divergence, kept in found if i == item)
        assert made.rows(f"SELECT is_right FROM scored_item WHERE kind = 'inv' AND item = '{item}'") == [(passes,)]


def signed_norms(made: Asked, read: Read, at: int) -> np.ndarray:
    """m_i·‖v_i‖ of each layer at a position, [n_layers, d_ffn]; where a norm follows the FFN, over the root mean square that it divides by."""
    found: list[np.ndarray] = []

    def hear(module: torch.nn.Module, arguments: tuple, output: torch.Tensor, values: torch.Tensor) -> None:
        m, out = arguments[0].reshape(-1, len(values))[at], output.reshape(-1, values.shape[1])[at]
        scale = (out.pow(2).mean() + made.hf.config.rms_norm_eps).rsqrt() if made.family == "gemma2" else 1
        found.append((m * values.norm(dim=1) * scale).detach().numpy())

    hooks = [module.register_forward_hook(partial(hear, values=values)) for module, values in VALUES[made.family](made.hf)]
    with torch.no_grad():
        made.hf(torch.tensor([[0, *read.ids]]))
    for hook in hooks:
        hook.remove()
    return np.stack(found)


def test_contrasts_are_differences_of_sub_updates(made: Asked) -> None:
    differences = []
    for row, spans in ((PAIRS[0], (24, 38)), (PAIRS[1], None), (PAIRS[3], None)):
        updates = []
        for k, role in enumerate(("good", "bad")):
            read = made.of(row[f"sentence_{role}"])
            at = len(read.ids) if spans is None else 1 + int(np.flatnonzero(read.inside(4, spans[k]))[-1])
            updates.append(signed_norms(made, read, at))
        differences.append(updates[0] - updates[1])
    exact = np.stack(differences)
    found = made.rows("SELECT layer, neuron, n_items, mean, std, mean_absolute FROM neuron_contrast WHERE paradigm = 'one' ORDER BY ALL")
    layers, neurons, n, mean, std, size = (np.array(column) for column in zip(*found, strict=True))
    assert len(found) == exact[0].size
    assert set(n) == {3}
    for column, wanted in ((mean, exact.mean(0)), (std, exact.std(0)), (size, np.abs(exact).mean(0))):
        np.testing.assert_allclose(column, wanted[layers, neurons], rtol=1e-3, atol=1e-5)


@pytest.mark.ci_cases(1)
@pytest.mark.thorough
def test_the_atlas_keeps_every_rule(made: Asked) -> None:
    with closing(open_reader(made.path)) as con:
        assert [f for f in run_audits(con) if f.n_rows] == []


def contents(path: Path) -> dict[str, list[tuple]]:
    with closing(open_reader(path)) as con:
        return {name: con.execute(f"FROM {name} ORDER BY ALL").fetchall() for name in (*OF_SUITES, "position_prediction", "document", "position")}


@pytest.mark.ci_cases(2)
@pytest.mark.first_cases(0)
def test_a_run_that_was_killed_between_paradigms_goes_on(made: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contrasted, done = suite_rows.contrast_pairs, []

    def interrupted(*arguments: object):
        if len(done) == 1:
            raise KeyboardInterrupt
        done.append(arguments)
        return contrasted(*arguments)

    again = suite_request(made.tiny, tmp_path / "b.duckdb", written_suite(made.path.parent))
    monkeypatch.setattr(suite_rows, "contrast_pairs", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(again)
    assert len(done) == 1
    counted = []
    monkeypatch.setattr(suite_rows, "contrast_pairs", lambda *arguments: (counted.append(arguments), contrasted(*arguments))[1])
    run(again)
    # three paradigms of pairs, of which one was loaded
    assert len(counted) == 2
    assert contents(tmp_path / "b.duckdb") == contents(made.path)


@pytest.mark.first_cases(3)
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"bos": "never"}, "nothing would predict the first token"),
        ({"cut": "sentences"}, "leave --cut out"),
        ({"max_documents": 3}, "leave --max-documents out"),
        ({"context": 9}, "must fit in one context of 9 tokens, and this has "),
    ],
)
def test_what_would_cut_sentences_is_refused(tmp_path: Path, changes: dict, said: str) -> None:
    tiny = make(tmp_path, "gpt2")
    with pytest.raises(AtlasError, match=said):
        run(suite_request(tiny, tmp_path / "a.duckdb", written_suite(tmp_path), **changes))
    assert not (tmp_path / "a.duckdb").exists()


def test_the_command_says_what_was_right_of_the_suite_that_it_was_given(tmp_path: Path) -> None:
    tiny, target = make(tmp_path, "llama"), str(tmp_path / "a.duckdb")
    _, gym, _ = written_suite(tmp_path)

    def said(*arguments: str) -> str:
        result = CliRunner().invoke(command, [target, "--context", "64", "--quiet", *arguments], catch_exceptions=False)
        assert result.exit_code == 0
        # which number format is chosen is said where there is no atlas yet
        return result.output.replace("computing in float32\n", "")

    dry = said("--suite", gym, "--model", str(tiny.folder), "--dry-run")
    assert re.search(r"test_item +4 ", dry)
    assert re.search(r"test_term +8 ", dry)
    assert not Path(target).exists()
    first = said("--suite", str(tmp_path / "suite" / "pairs.jsonl"), str(tmp_path / "suite" / "winograd.jsonl"), "--model", str(tiny.folder))
    assert re.search(r"suite +winograd +1 ", first)
    # the model is the atlas's own
    assert re.search(r"gym +number +2 ", said("--suite", gym))
    assert said("--suite", str(tmp_path / "suite" / "pairs.jsonl"), str(tmp_path / "suite" / "winograd.jsonl")) == first
