"""Identities that hold in every model that the atlas describes correctly, checked on the model's real weights before anything is stored.

Most are checked for every model. Those of attention are checked only by passes that read heads, so that the FFNs of a model that fails them can be recorded.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from math import log2

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers.activations import ACT2FN

from ingest.model.agreement import relative_error
from ingest.model.embedding import position_rows, token_rows
from ingest.model.folding import by_formula, ffn_norm, layer_norm
from ingest.model.heads import apply_qk_norm, attention_input, for_each_head, layer_heads, pattern, project_by_head
from ingest.model.hooks import ATTENDED, KEY, RECORDED, LayerRecord, record_layers
from ingest.model.models import Model
from ingest.model.modules import MODEL_ERRORS, in_float32
from ingest.model.parts import constants, layer_parts, logits
from schema.errors import AtlasError, first_line

TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-4, torch.float16: 5e-3, torch.bfloat16: 3e-2}
"""Largest relative error that rounding alone may cause: in float32, in which weights are read back, of sums over d_ffn terms of both signs; in half
precision, a few units in the last place."""

EMBEDDING = "token row + position row = first resid_pre"
STREAM = "resid_post of the layer before = resid_pre"
RESIDUAL = "resid_pre + attn_out = resid_mid, resid_mid + ffn_out = resid_post"
NORM = "norm of the state that the FFN reads = what its keys read"
KEYS = "activation(keys @ what they read) = coefficients"
FFN = "coefficients @ values + bias = ffn_out"
LINEAR = "projections of larger inputs = weights @ inputs + biases"
LOGITS = "lens(last resid_post) = logits"
FINAL_NORM = "norm by its gain = what the final norm gives"
CAUSAL = "a state depends on no later token"
ALONE = "a state depends on no other text of its batch"
READ = "norms by their gains = what attention's norms give"
HEADS = "heads + attention bias = attn_out"
PATTERN = "pattern @ values = what heads gathered"
PARTS = "sum of the logits of all parts = logit"

SHORT = 12
"""Tokens of a short probe text."""

FURTHER = ((5, 3), (13, 4), (15, 2), (40, 2))
"""Tokens and sequences of the further probe texts of a model that was recognised, whose code may do otherwise at other lengths."""

WEIGHTS_AT_ONCE = 2**24

LARGER, LARGEST = 6, 1e4
"""Most doublings of an FFN projection's inputs when it is checked beyond real texts, and the largest number allowed there: half precision holds 65,504."""

BATCHES = 20
"""Factor on the tolerance for states that were read in batches of different sizes, which products of matrices sum in another order, layer after layer."""

SLACK = 4
"""Factor on the tolerance for quantities rebuilt in float32 and compared with a half-precision forward pass.

The pass rounds the scores before the softmax, and the stream after every sum.
"""


def residual_error(record: LayerRecord) -> float:
    pre, attn, mid, ffn, post = (record[site].float() for site in ("resid_pre", "attn_out", "resid_mid", "ffn_out", "resid_post"))
    return max_error(relative_error(pre + attn, mid), relative_error(mid + ffn, post))


def ffn_error(model: Model, record: LayerRecord, layer: int) -> float:
    total = record["coefficient"].float() @ model.values(layer)
    bias = model.ffn_bias(layer)
    if bias is not None:
        total = total + bias
    return relative_error(total * record["ffn_scale"].unsqueeze(-1), record["ffn_out"])


def norm_error(model: Model, record: LayerRecord, layer: int) -> float:
    """Measure the error of the norm between the stream and the keys, as the family's entry describes it: which norm, over which state, with which gain."""
    state, norm = record["resid_pre" if model.is_parallel else "resid_mid"].float(), ffn_norm(model, layer)
    return relative_error(by_formula(model, norm, state), record[KEY])


def keys_error(model: Model, record: LayerRecord, layer: int) -> float:
    """Measure the error of the keys themselves: each coefficient is rebuilt from the keys and their input.

    The activation function is looked up by its name, and not taken from the module that the model calls.
    """
    gate_keys, activation, read = model.gate_keys(layer), ACT2FN[model.activation], record[KEY].float()
    up = F.linear(read, model.keys(layer), model.key_bias(layer, "up"))
    if gate_keys is None:
        return relative_error(record["coefficient"], activation(up))
    return relative_error(record["coefficient"], activation(F.linear(read, gate_keys, model.key_bias(layer, "gate"))) * up)


def linear_error(model: Model, record: LayerRecord, layer: int) -> float:
    """Measure the error of an FFN's projections as linear maps, for inputs larger than texts produce.

    A coefficient must multiply its value, and a key must be multiplied with its input, however large they are.
    """
    ffn, errors = model.ffn(layer), []
    for site, path in (("coefficient", ffn.down), (KEY, ffn.up), (KEY, ffn.gate)):
        if path is not None:
            x, bias = record[site].float(), model.bias(layer, path)
            raw = F.linear(x, model.rows(layer, path))
            room = LARGEST / max(float(x.abs().max()), float(raw.abs().max()), 1.0)
            # a power of two, which rounds nothing
            times = 2.0 ** max(0, min(LARGER, int(log2(room))))
            got = model.layer_module(layer, path)((x * times).to(model.layer_device(layer), model.dtype))
            errors.append(relative_error(got.to(model.device), raw * times + (0 if bias is None else bias)))
    return max_error(*errors)


def max_error(*errors: float) -> float:
    """Find the largest error; nan if any error is nan."""
    return float(torch.tensor(errors, dtype=torch.float64).max())


def require_finite_weights(model: Model) -> None:
    """Raise AtlasError if a parameter holds NaNs or infinities; the message names the first such parameter, and how many it holds."""
    for name, parameter in model.hf.named_parameters():
        # a sum reads each weight once and holds nothing; one that is not finite may also have overflowed, so what it is of is counted
        if bool(torch.isfinite(parameter.detach().sum(dtype=torch.float32))):
            continue
        # what tells of each number is held of some at a time
        n_bad = sum(int((~torch.isfinite(part)).sum()) for part in parameter.detach().reshape(-1).split(WEIGHTS_AT_ONCE))
        if n_bad:
            raise AtlasError(f"model {model.name}: parameter {name} holds {n_bad} NaN or infinite weights of {parameter.numel()}")


def probe_tokens(model: Model, length: int = SHORT, n_sequences: int = 2) -> Tensor:
    """Build sequences spread over the vocabulary, [n_sequences, length], which share their first half."""
    n_tokens = min(model.d_vocab, len(model.tokenizer))
    tokens = (torch.arange(n_sequences * length) * 7919 + 1).remainder(n_tokens).view(n_sequences, length)
    tokens[1:, : length // 2] = tokens[0, : length // 2]
    return tokens


def probe_texts(model: Model) -> Iterator[Tensor]:
    """Build the probe texts of a model: of one that was recognised several, of other lengths and numbers than the text that its facts were found from."""
    yield probe_tokens(model)
    if model.architecture.is_recognised:
        for length, n_sequences in FURTHER:
            if model.max_context is None or length <= model.max_context:
                yield probe_tokens(model, length, n_sequences)


def require_small(model: Model, identity: str, errors: dict[int, float], slack: float = 1) -> float:
    """Find the largest error. Raises AtlasError, with the numbers and the layer, if an error is nan or exceeds the tolerance times the slack."""
    tolerance = TOLERANCE[model.dtype] * slack
    for layer, error in errors.items():
        if not error <= tolerance:
            raise AtlasError(
                f"model {model.name} ({model.model_type}): the identity {identity} fails at layer {layer}: "
                f"relative error {error:.3g}, tolerance {tolerance:g} in {str(model.dtype).removeprefix('torch.')}; nothing was stored"
            )
    return max(errors.values(), default=0.0)


def check_identities(model: Model) -> dict[str, float]:
    """Compute the largest relative error of each identity over layers and positions: {"embedding", "stream", "residual", "norm", "keys", "ffn", "linear", …}.

    The identity "ffn" (coefficients times values) holds whatever the keys are, since a coefficient is read at the down projection's input. Two more identities
    check the rest: "keys", that each coefficient follows from its key and the FFN's input (Geva et al. 2021, equation 2; gated: Shazeer 2020), and "norm",
    that this input is the stream after the norm that the family's entry names.
    In a parallel block resid_mid is defined as resid_pre + attn_out, so there only the second half of the residual identity can fail.
    Norms are compared with their formula too, because readers of the stream have the gains folded in and never call the norm's module.
    Raises AtlasError, with the numbers and the layer, if an error exceeds the tolerance of the dtype or is nan, and, naming the parameter, for weights that
    are not finite.
    """
    require_finite_weights(model)
    found = take_largest([probe_identities(model, tokens) for tokens in probe_texts(model)])
    if model.architecture.is_recognised:
        independence = probe_independence(model)
        found |= {**independence, "causal": max_error(found["causal"], independence["causal"])}
    model.errors.update(found)
    return found


def probe_independence(model: Model) -> dict[str, float]:
    """Compute the errors of two identities of a recognised model, whose mixers nothing else proves: {"causal", "alone"}.

    One text is read in a batch with others, of which the i-th shares its first i tokens and no more, and then by itself.
    """
    n = min(SHORT, model.max_context or SHORT)
    own, row, n_tokens = probe_tokens(model, n, 1), torch.arange(n)[:, None], min(model.d_vocab, len(model.tokenizer))
    # row i has other tokens from position i on
    rows = torch.where((torch.arange(n) >= row) & (row > 0), (own + row).remainder(n_tokens), own)
    with torch.inference_mode(), record_layers(model, lambda x: x.to(model.device), ("resid_post",)) as records:
        read = []
        for tokens in (rows, rows[:1]):
            with translate_forward_errors(model):
                model.backbone(tokens)
            read.append([record["resid_post"] for record in records])
    together, alone = read
    before = {layer: max_error(*(relative_error(x[i : i + 1, :i], x[:1, :i]) for i in range(1, n))) for layer, x in enumerate(together)}
    of_batch = {layer: relative_error(x[:1], y) for layer, (x, y) in enumerate(zip(together, alone, strict=True))}
    return {"alone": require_small(model, ALONE, of_batch, BATCHES), "causal": require_small(model, CAUSAL, before)}


def take_largest(reports: list[dict[str, float]]) -> dict[str, float]:
    """Take each identity's largest error over the reports of several texts."""
    return {identity: max(report[identity] for report in reports) for identity in reports[0]}


def probe_identities(model: Model, tokens: Tensor) -> dict[str, float]:
    """Compute the errors of `check_identities` on one text, [n_sequences, length] tokens that share their first half."""
    with torch.inference_mode(), record_layers(model, lambda x: x.to(model.device), (*RECORDED, KEY)) as records:
        with translate_forward_errors(model):
            logits = model.hf(input_ids=tokens.to(model.input_device), use_cache=False).logits.to(model.device)
        last, final = records[-1]["resid_post"], model.n_layers - 1
        at_final_norm = relative_error(by_formula(model, model.final_norm, last.float()), model.final_norm(last.float()))
        return {
            "embedding": require_small(model, EMBEDDING, {0: embedding_error(model, records[0], tokens)}),
            "stream": require_small(model, STREAM, stream_errors(records)),
            **layer_identities(model, dict(enumerate(records))),
            "linear": require_small(model, LINEAR, {layer: linear_error(model, record, layer) for layer, record in enumerate(records)}),
            "logits": require_small(model, LOGITS, {final: relative_error(model.lens(last), logits)}),
            "final_norm": require_small(model, FINAL_NORM, {final: at_final_norm}),
            "causal": require_small(
                model, CAUSAL, {layer: look_ahead_error(record["resid_post"][:, : tokens.shape[1] // 2]) for layer, record in enumerate(records)}
            ),
        }


def layer_identities(model: Model, records: dict[int, LayerRecord]) -> dict[str, float]:
    """Compute the largest error over layers of the identities within a layer: {"residual", "norm", "keys", "ffn"}.

    Raises AtlasError as `check_identities` does.
    """
    return {
        "residual": require_small(model, RESIDUAL, {layer: residual_error(record) for layer, record in records.items()}),
        "norm": require_small(model, NORM, {layer: norm_error(model, record, layer) for layer, record in records.items()}),
        "keys": require_small(model, KEYS, {layer: keys_error(model, record, layer) for layer, record in records.items()}),
        "ffn": require_small(model, FFN, {layer: ffn_error(model, record, layer) for layer, record in records.items()}),
    }


def embedding_error(model: Model, first: LayerRecord, tokens: Tensor) -> float:
    return relative_error(token_rows(model, tokens) + position_rows(model, tokens.shape[1]), first["resid_pre"])


def stream_errors(records: list[LayerRecord]) -> dict[int, float]:
    """Measure, for every layer but the first, the error between the layer's resid_pre and the resid_post of the layer before."""
    return {layer: relative_error(before["resid_post"], record["resid_pre"]) for layer, (before, record) in enumerate(pairwise(records), start=1)}


def look_ahead_error(shared: Tensor) -> float:
    """Measure the error between the states of the two probe sequences, over the positions at which both have read the same tokens: [2, n, d_model]."""
    return relative_error(shared[1:], shared[:1])


@contextmanager
def translate_forward_errors(model: Model) -> Iterator[None]:
    """Turn an error that torch or transformers raises in a forward pass into an AtlasError with a clear message; out-of-memory errors pass unchanged."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except MODEL_ERRORS as error:
        raise AtlasError(f"model {model.name} ({model.model_type}): a forward pass fails ({first_line(error)}); is its config.json the right one?") from error


def check_attention(model: Model) -> dict[str, float]:
    """Compute the largest relative error of each identity of attention over layers and positions: {"read", "heads", "pattern", "parts"}.

    Raises AtlasError, with the numbers and the layer, if an error exceeds the tolerance of the dtype or is nan.
    """
    found = take_largest([probe_attention(model, tokens.to(model.input_device)) for tokens in probe_texts(model)])
    model.errors.update(found)
    return found


def probe_attention(model: Model, tokens: Tensor) -> dict[str, float]:
    """Compute the errors of `check_attention` on one text, [n_sequences, length] tokens."""
    slack = 1 if model.dtype == torch.float32 else SLACK
    with translate_forward_errors(model), torch.inference_mode(), record_layers(model, lambda x: x.to(model.device), (*RECORDED, *ATTENDED)) as records:
        model.backbone(tokens)
        return {
            "read": require_small(model, READ, {layer: attention_norms_error(model, record, layer) for layer, record in enumerate(records)}),
            "heads": require_small(model, HEADS, {layer: heads_error(model, record, layer) for layer, record in enumerate(records)}),
            "pattern": require_small(model, PATTERN, {layer: pattern_error(model, record, layer) for layer, record in enumerate(records)}, slack),
            "parts": require_small(model, PARTS, {model.n_layers - 1: parts_error(model, records, tokens)}, slack),
        }


def attention_norms_error(model: Model, record: LayerRecord, layer: int) -> float:
    """Measure the error of the norm before attention, and of the norms of q and k.

    The modules are compared with the formula by which their gains are folded into weights.
    """
    attention, config, heads = model.attention(layer), model.hf.config, layer_heads(model, layer)
    read, norm = attention_input(model, layer, record["context"]), layer_norm(model, layer, attention.norm)
    errors = [relative_error(by_formula(model, norm, record["context"].float()), read)]
    for path, weight, bias in ((attention.q_norm(config), heads.w_q, heads.b_q), (attention.k_norm(config), heads.w_k, heads.b_k)):
        if (own := layer_norm(model, layer, path)) is not None:
            rows, is_joint = project_by_head(read, weight, bias), attention.is_qk_norm_joint
            errors.append(
                relative_error(apply_qk_norm(rows, partial(by_formula, model, own), is_joint), apply_qk_norm(rows, in_float32(own, model.device), is_joint))
            )
    return max_error(*errors)


def heads_error(model: Model, record: LayerRecord, layer: int) -> float:
    parts = layer_parts(model, layer, record)
    total = parts["head"].sum(-2)
    if "attention_bias" in parts:
        total = total + parts["attention_bias"][..., 0, :]
    return relative_error(total, record["attn_out"])


def pattern_error(model: Model, record: LayerRecord, layer: int) -> float:
    resid_pre, heads = record["context"], layer_heads(model, layer)
    values = for_each_head(model, project_by_head(attention_input(model, layer, resid_pre), heads.w_v, heads.b_v))
    return relative_error(torch.einsum("bhst,hbtd->bshd", pattern(model, layer, resid_pre), values).flatten(-2), record["gathered"])


def parts_error(model: Model, records: list[LayerRecord], tokens: Tensor) -> float:
    """Compute the largest |logit - sum of its parts| / max(1, |logit|) over positions, for the token predicted at each."""
    last = records[-1]["resid_post"].float()
    final = model.lens(last).argmax(-1)
    total = token_rows(model, tokens) + position_rows(model, tokens.shape[1])
    for layer, record in enumerate(records):
        total = total + sum(part.sum(-2) for part in layer_parts(model, layer, record).values())
    summed = (model.logit_readers(final) * total).sum(-1) / model.final_scale(last) + constants(model, final)
    own = logits(model, last.flatten(0, 1), final.flatten()[:, None]).view(final.shape)
    return float(((own - summed).abs() / own.abs().clamp_min(1)).max())
