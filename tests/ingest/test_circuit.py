"""What the circuit pass stores of random models of every family, against matrices of the size of the stream and of the vocabulary."""

import numpy as np
import pytest
import torch

from ingest.model import positions
from ingest.model.architectures import ARCHITECTURES
from ingest.model.folding import folded_heads
from ingest.model.models import Model
from ingest.model.token_states import TokenStates
from ingest.passes import passes
from ingest.passes.base import CostSample
from ingest.recorders import composition, virtual_weights
from ingest.recorders.circuits import circuit_tables
from ingest.recorders.distances import Distances
from schema.errors import AtlasError
from tests.exact.heads_reference import Heads, centred, eigenvalues, ratio
from tests.exact.tiny import asked
from tests.ingest.attention_oracle import eager_model
from tests.ingest.peak import peak
from tests.ingest.tiny_models import marked, tiny_model

PASS = passes()["circuit"]

torch.set_num_threads(1)

SEEN = Distances(12)
VARIANTS = [(model_type, {}) for model_type in ARCHITECTURES] + [
    ("opt", {"enable_bias": False, "layer_norm_elementwise_affine": False}),
    ("phi", {"qk_layernorm": True}),
    ("gpt_neox", {"use_parallel_residual": False}),
    ("llama", {"head_dim": 6, "num_key_value_heads": 1}),
]
every_variant = pytest.mark.parametrize(("model_type", "changes"), marked(VARIANTS), ids=[f"{m}{'-' + '-'.join(c) if c else ''}" for m, c in VARIANTS])


@pytest.fixture(params=marked(VARIANTS, is_one=True), ids=[f"{m}{'-' + '-'.join(c) if c else ''}" for m, c in VARIANTS], scope="module")
def both(request: pytest.FixtureRequest) -> tuple[Model, Heads, dict[int, dict[str, list[dict]]]]:
    """A model, its reference, and the rows of each of its layers by table."""
    model_type, changes = request.param
    model = eager_model(model_type, **changes)
    states = TokenStates(model)
    found = [circuit_tables(model, layer, states, SEEN) for layer in range(model.n_layers)]
    return model, Heads(model.hf), {layer: {k: v.to_pylist() for k, v in tables.items()} for layer, tables in enumerate(found)}


def test_folded_weights_are_those_of_the_parameters_by_name(both) -> None:
    model, heads, _ = both
    for layer in range(model.n_layers):
        folded = folded_heads(model, layer)
        for head in range(model.n_heads):
            for part, rows in enumerate((folded.w_q, folded.w_k, folded.w_v)):
                np.testing.assert_allclose(rows[head], heads.reader(layer, head, part), atol=1e-5)
            np.testing.assert_allclose(folded.w_o[head], heads.output(layer, head), atol=1e-5)


def test_tokens_are_what_the_first_block_makes_of_each_alone(both) -> None:
    model, heads, _ = both
    for layer in (0, 1):
        found = TokenStates(model).sources(layer)
        np.testing.assert_allclose(found, heads.sources(layer), atol=2e-5 * np.abs(heads.sources(layer)).max())


def test_numbers_of_heads(both) -> None:
    model, heads, tables = both
    for layer in range(model.n_layers):
        own, first = heads.sources(layer), heads.sources(0)
        for head, row in enumerate(tables[layer]["head"]):
            ov, qk, d_head = heads.ov(layer, head), heads.qk(layer, head), model.d_head
            expected = {
                "kv_head": head * heads.n_kv // heads.n_heads,
                "window_size": heads.window(layer),
                "qk_norm": np.linalg.norm(qk),
                "ov_norm": np.linalg.norm(ov),
                "bias_norm": np.linalg.norm(heads.constant(layer, head)),
                # λ(AB) = λ(BA): d_model × d_model here, d_vocab × d_vocab below
                "copying_token": ratio(eigenvalues(ov @ first.T @ centred(heads.readers), d_head)),
                "copying_effective": ratio(eigenvalues(ov @ own.T @ centred(heads.readers), d_head)),
                "copying_uncentred": ratio(eigenvalues(ov @ first.T @ heads.readers, d_head)),
                "stream_ratio": ratio(eigenvalues(ov, d_head)),
                "matching": ratio(eigenvalues(qk @ centred(own).T @ centred(own), d_head)),
                "own_first_share": np.mean((own @ ov.T @ heads.readers.T).argmax(1) == np.arange(len(own))),
            }
            assert (row["layer"], row["head"]) == (layer, head)
            assert {name: row[name] for name in expected} == pytest.approx(expected, abs=2e-4)


def test_eigenvalues_are_those_of_the_matrix_over_the_vocabulary(both) -> None:
    model, heads, tables = both
    layer, head = model.n_layers - 1, model.n_heads - 1
    own, u = heads.sources(layer), centred(heads.readers)
    expected = {
        "ov_token": u @ heads.ov(layer, head) @ heads.sources(0).T,
        "ov_effective": u @ heads.ov(layer, head) @ own.T,
        "stream": heads.ov(layer, head),
        "matching": centred(own) @ heads.qk(layer, head) @ centred(own).T,
    }
    for spectrum, matrix in expected.items():
        rows = [r for r in tables[layer]["head_eigenvalue"] if (r["head"], r["spectrum"]) == (head, spectrum)]
        assert [r["rank"] for r in rows] == list(range(1, model.d_head + 1))
        found, want = np.array([r["real"] + 1j * r["imaginary"] for r in rows]), eigenvalues(matrix, model.d_head)
        assert list(np.abs(found)) == sorted(np.abs(found), reverse=True)
        scale = np.abs(want).max()
        assert all(np.abs(found - value).min() < 1e-4 * scale for value in want)
        assert abs(found.sum() - want.sum()) < 1e-4 * scale


def test_every_pair_of_heads_composes_as_the_whole_matrices_do(both) -> None:
    model, heads, tables = both
    assert tables[0]["composition"] == []
    rows = {(r["kind"], r["head"], r["from_head"]): r for r in tables[1]["composition"] if (r["layer"], r["from_layer"]) == (1, 0)}
    assert len(rows) == len(tables[1]["composition"]) == 3 * model.n_heads**2
    turn, n = heads.mean_turn(1, heads.pairs(1, SEEN.context)), np.linalg.norm
    for (kind, head, earlier), row in rows.items():
        writes = heads.ov(0, earlier)
        read, averaged = {
            "k": (heads.qk(1, head), None if turn is None else heads.qk(1, head, turn)),
            "q": (heads.qk(1, head).T, None if turn is None else heads.qk(1, head, turn).T),
            "v": (heads.ov(1, head), None),
        }[kind]
        assert row["score"] == pytest.approx(n(read @ writes) / n(read) / n(writes), rel=1e-4)
        assert (row["score_averaged"] is None) == (averaged is None)
        if averaged is not None:
            assert row["score_averaged"] == pytest.approx(n(averaged @ writes) / n(averaged) / n(writes), rel=1e-4)
        assert (row["matching"] is None) == (kind != "k")
        if kind == "k":
            look = centred(heads.sources(1)).T @ centred(heads.sources(0))
            expected = ratio(eigenvalues(heads.qk(1, head) @ writes @ look.T, model.d_head))
            assert row["matching"] == pytest.approx(expected, abs=2e-4)


def test_directions_are_the_singular_vectors_of_the_whole_matrices(both) -> None:
    model, heads, tables = both
    layer, head, n = 1, model.n_heads - 1, min(8, model.d_head)
    mine = [r for r in tables[layer]["head_direction"] if r["head"] == head]
    tokens = [r for r in tables[layer]["head_direction_token"] if r["head"] == head]
    own, u = centred(heads.sources(layer)), centred(heads.readers)
    for circuit, matrix, sides in (("ov", heads.ov(layer, head), {"write": u, "read": own}), ("qk", heads.qk(layer, head), {"query": own, "key": own})):
        left, sigma, right = np.linalg.svd(matrix)
        sigma = np.where(sigma > 1e-6 * sigma[0], sigma, 0)
        rows = [r for r in mine if r["circuit"] == circuit]
        assert [r["direction_rank"] for r in rows] == list(range(1, n + 1))
        gaps = (sigma[:n] - np.append(sigma, 0)[1 : n + 1]) / np.where(sigma[:n] > 0, sigma[:n], 1)
        for name, expected in (("sigma", sigma[:n]), ("share", (sigma**2 / (sigma**2).sum())[:n]), ("gap", gaps)):
            np.testing.assert_allclose([r[name] for r in rows], expected, atol=1e-4 * max(1, sigma[0]))
        for i in np.flatnonzero(sigma[:n]):
            sign = np.sign(left[np.abs(left[:, i]).argmax(), i])
            for (side, of), direction in zip(sides.items(), (left[:, i], right[i]), strict=True):
                scores = of @ direction * sign
                for tail, falling in (("max", -scores), ("min", scores)):
                    kept = [r for r in tokens if (r["circuit"], r["direction_rank"], r["side"], r["tail"]) == (circuit, i + 1, side, tail)]
                    assert [r["rank"] for r in kept] == list(range(1, 11))
                    # a near-tie of singular values turns both directions, and of scores swaps two tokens
                    loose = 1e-5 * np.abs(scores).max() / min(gaps[i], gaps[i - 1] if i else 1)
                    np.testing.assert_allclose([r["score"] for r in kept], scores[np.argsort(falling)[:10]], atol=loose)
                    np.testing.assert_allclose([r["score"] for r in kept], scores[[r["token_id"] for r in kept]], atol=loose)


def test_virtual_weights_are_the_largest_of_all_products_of_folded_keys_and_values(both) -> None:
    model, heads, tables = both
    keys = [heads.ffn_readers(layer) for layer in range(2)]
    values = [heads.ffn_values(layer) for layer in range(2)]
    for layer, other in ((0, 1), (1, 0)):
        totals = {(r["neuron"], r["side"]): r for r in tables[layer]["virtual_weight_total"]}
        found: dict[tuple[int, str], list[dict]] = {}
        for row in tables[layer]["virtual_weight"]:
            found.setdefault((row["neuron"], row["side"]), []).append(row)
        for side in keys[0]:
            own = keys[layer][side]
            name, products = (side, own @ values[0].T) if layer == 1 else (f"read_by_{side}", values[0] @ keys[1][side].T)
            lengths = np.linalg.norm(own if layer == 1 else values[0], axis=1)[:, None] * np.linalg.norm(values[0] if layer == 1 else keys[1][side], axis=1)
            assert all((neuron, name) in found and (neuron, side) in totals for neuron in range(len(own)))
            for neuron, weights in enumerate(products):
                rows, total = found[neuron, name], totals[neuron, name]
                best = [r["other_neuron"] for r in rows]
                assert [(r["rank"], r["other_layer"]) for r in rows] == [(i + 1, other) for i in range(10)]
                np.testing.assert_allclose([abs(r["weight"]) for r in rows], np.sort(np.abs(weights))[::-1][:10], rtol=1e-4)
                np.testing.assert_allclose([r["weight"] for r in rows], weights[best], rtol=1e-4)
                np.testing.assert_allclose([r["cosine"] for r in rows], (weights / lengths[neuron])[best], rtol=1e-4)
                assert (total["n"], total["sum_squares"]) == (model.d_ffn, pytest.approx((weights**2).sum(), rel=1e-4))
                cosine = own[neuron] @ values[layer][neuron] / np.linalg.norm(own[neuron]) / np.linalg.norm(values[layer][neuron])
                assert totals[neuron, side]["folded_cosine"] == pytest.approx(cosine, abs=1e-5)
                empty = totals[neuron, f"read_by_{side}" if layer == 1 else side]
                assert (empty["n"], empty["sum_squares"]) == (0, 0)


def test_virtual_weights_with_several_layers_are_merged_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_weights, "ROWS", 7)
    model = eager_model("llama", num_hidden_layers=2)
    heads = Heads(model.hf)
    merged = virtual_weights.Largest(model.values(0))
    for layer in range(2):
        merged.add(layer, virtual_weights.readers(model, layer)["key"])
    products = heads.ffn_values(0) @ np.concatenate([heads.ffn_readers(layer)["key"] for layer in range(2)]).T
    order = np.argsort(-np.abs(products), axis=1, kind="stable")[:, :10]
    np.testing.assert_allclose(merged.weights, np.take_along_axis(products, order, 1), rtol=1e-4)
    assert merged.others.tolist() == order.tolist()


def test_matching_is_computed_through_the_strongest_writers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composition, "N_MATCHED", 2)
    model = eager_model("gpt2", n_layer=3)
    rows = circuit_tables(model, 2, TokenStates(model), SEEN)["composition"].to_pylist()
    for head in range(model.n_heads):
        mine = sorted((r for r in rows if r["kind"] == "k" and r["head"] == head), key=lambda r: -r["score"])
        assert [r["matching"] is None for r in mine] == [False, False, True, True]


def test_a_head_of_zeros_has_zeros_and_no_nan() -> None:
    model = eager_model("llama")
    with torch.no_grad():
        for parameter in model.hf.model.layers[1].self_attn.parameters():
            parameter.zero_()
    tables = circuit_tables(model, 1, TokenStates(model), SEEN)
    row = tables["head"].to_pylist()[0]
    assert {row[name] for name in ("qk_norm", "ov_norm", "bias_norm", "copying_token", "copying_effective", "stream_ratio", "matching")} == {0.0}
    assert {r["score"] for r in tables["composition"].to_pylist()} == {0.0}


def test_neurons_of_zeros_write_and_read_nothing_and_have_no_nan() -> None:
    model = eager_model("llama")
    with torch.no_grad():
        for parameter in model.hf.model.layers[0].mlp.parameters():
            parameter.zero_()
    for layer in (0, 1):
        tables = virtual_weights.virtual_weight_tables(model, layer)
        assert {(row["weight"], row["cosine"]) for row in tables["virtual_weight"].to_pylist()} == {(0.0, 0.0)}
    totals = virtual_weights.virtual_weight_tables(model, 0)["virtual_weight_total"].to_pylist()
    assert {row["folded_cosine"] for row in totals if row["side"] in ("key", "gate")} == {0.0}
    assert {row["sum_squares"] for row in totals} == {0.0}


def test_factors_in_another_order_have_the_eigenvalues_and_not_the_norm() -> None:
    """The erratum of 2023: what E21's figure had printed, ‖W_K·W_O·W_V·W_Qᵀ‖, is another number, which no score is."""
    model = eager_model("gpt2")
    heads = Heads(model.hf)
    q, k = heads.reader(1, 0, 0), heads.reader(1, 0, 1)
    writes = heads.ov(0, 0)
    shifted = np.linalg.norm(k @ writes @ q.T) / np.linalg.norm(q.T @ k) / np.linalg.norm(writes)
    found = next(r for r in circuit_tables(model, 1, TokenStates(model), SEEN)["composition"].to_pylist() if r["kind"] == "k")
    assert abs(found["score"] / shifted - 1) > 0.1


def test_scores_are_those_of_rows_for_vectors_as_another_library_has_them() -> None:
    """TransformerLens' conventions: x·W, no baseline, K ‖W_OV·W_QKᵀ‖, Q ‖W_OV·W_QK‖ and V ‖W_OV·W_OV'‖ over the norms, W_QK = W_Q·W_Kᵀ unrotated."""
    model = eager_model("gpt2")
    blocks, d, n = model.hf.transformer.h, model.d_model, model.n_heads
    centre = torch.eye(d) - 1 / d

    def weights(layer: int, head: int) -> tuple[np.ndarray, np.ndarray]:
        """W_QK and W_OV with the norm's gain and centring in them."""
        q, k, v = ((centre @ (blocks[layer].ln_1.weight[:, None] * w)).chunk(n, 1)[head] for w in blocks[layer].attn.c_attn.weight.chunk(3, 1))
        return (q @ k.T).numpy(), (v @ blocks[layer].attn.c_proj.weight.chunk(n, 0)[head]).numpy()

    length = np.linalg.norm
    rows = circuit_tables(model, 1, TokenStates(model), SEEN)["composition"].to_pylist()
    assert len(rows) == 3 * n**2
    for row in rows:
        (qk, ov), (_, written) = weights(1, row["head"]), weights(0, row["from_head"])
        reading = {"k": qk.T, "q": qk, "v": ov}[row["kind"]]
        assert row["score"] == pytest.approx(length(written @ reading) / length(written) / length(reading), rel=1e-4)


def test_a_dry_run_counts_the_rows_and_times_a_layer(both) -> None:
    model, _, tables = both
    probe = CostSample(model, asked("x.duckdb", "m", None, circuit=True, context=12), None, [])
    expected, found = PASS.rows(probe), {name: sum(len(of[name]) for of in tables.values()) for name in tables[0]}
    # a neuron of the first layer reads no other, and one of the last is read by none
    expected["virtual_weight"] //= 2
    assert found == expected
    assert PASS.seconds(probe) > 0


@pytest.mark.parametrize("model_type", ["llama", "gptj", "gemma3_text"])
def test_the_mean_rotation_is_the_same_in_blocks(model_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = eager_model(model_type)
    rotary = model.architecture.attention.rotary
    shares = torch.from_numpy(np.random.default_rng(0).dirichlet(np.ones(17), 2))
    whole = positions.mean_rotation(model, rotary, 0, shares)
    monkeypatch.setattr(positions, "BLOCK", 3)
    for got, expected in zip(positions.mean_rotation(model, rotary, 0, shares), whole, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)


def test_what_rope_cannot_turn_is_said() -> None:
    model = eager_model("llama", head_dim=1)
    with pytest.raises(AtlasError, match="RoPE rotates dimensions in pairs, and here it would rotate 2 of a head's 1, which are not pairs"):
        positions.mean_rotation(model, model.architecture.attention.rotary, 0, torch.ones(1, 1))


@pytest.mark.thorough
def test_a_layer_takes_little_more_than_the_tokens_as_it_reads_them() -> None:
    """A wide vocabulary: what is made on the way is held for some thousand tokens, or some directions, at a time."""
    model = tiny_model("llama", vocab_size=80000, hidden_size=256, num_attention_heads=8, num_key_value_heads=8, head_dim=32, num_hidden_layers=2)

    def read() -> None:
        states = TokenStates(model)
        for layer in range(model.n_layers):
            circuit_tables(model, layer, states, SEEN)

    with torch.inference_mode():
        made = peak(read)
    assert 1 < made / (4 * model.unembedding.numel()) < 2.4
