"""How the attention of a traced block follows from its projections: what heads gathered, their values, and where they look."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import torch
from torch import Tensor

from ingest.model.agreement import error_between, holds, is_same
from ingest.model.facts import HeadOrder, Spread
from ingest.model.recognition.block import Affine, Angles, Block, Update, find_reads
from ingest.model.recognition.trace import Call, Refused
from ingest.model.score_positions import rotate_pairs

PATTERN_TOLERANCE = 1e-5
"""Largest error of a weight of an attention pattern that is rebuilt."""

HIDDEN = -1e30


Values = tuple[Affine, HeadOrder, tuple[Tensor, Tensor] | None, Call | None]


class Pattern(NamedTuple):
    """A way to give the pattern: softmax of capped(scale·q·k), q and k behind norms and rotated, or not."""

    q: Call
    k: Call
    q_norm: Call | None
    k_norm: Call | None
    angles: Angles | None
    is_adjacent: bool
    scale: float
    softcap: float | None
    slopes: tuple[float, ...] | None


@dataclass(frozen=True, eq=False)
class Attention:
    """What is known of a block's attention."""

    update: Update
    o: Call
    after_norm: Call | None
    norm: Call | None
    v: Call
    layout: HeadOrder
    n_heads: int
    pattern: Pattern
    window: int | None


def find_angles(block: Block) -> list[Angles]:
    """List the distinct cosines and sines that calls before the end of the block gave."""
    found: list[Angles] = []
    for call in block.traced.turns:
        if call.start > block.call.end:
            continue
        cosine, sine = (x if x.dim() == 2 else x[0] for x in call.outputs)
        ways: tuple[tuple[Spread, Tensor, Tensor], ...] = (
            ("halves", cosine[:, : cosine.shape[1] // 2], sine[:, : sine.shape[1] // 2]),
            ("neighbours", cosine[:, ::2], sine[:, ::2]),
            ("once", cosine, sine),
        )
        for spread, c, s in ways:
            if not any(torch.equal(c, other.cosine) and torch.equal(s, other.sine) for other in found):
                found.append(Angles(call.path, tuple(call.words), c, s, spread))
    return found


def for_heads(x: Tensor, n_heads: int) -> Tensor:
    """Repeat [batch, kv heads, …] for each head that uses it."""
    return x.repeat_interleave(n_heads // x.shape[1], 1)


def cut_projection(y: Tensor, n_heads: int, d_head: int) -> dict[HeadOrder, tuple[Tensor, Tensor, Tensor]]:
    """List the ways to cut what a projection gave, [batch, seq, rows], into q, k and v, each [batch, heads, seq, d_head], by layout."""
    n, left = divmod(y.shape[-1], d_head)
    n_kv, odd = divmod(n - n_heads, 2)
    if left or odd or n_kv < 1 or n_heads % n_kv:
        return {}

    q, k, v = y.split([n_heads * d_head, n_kv * d_head, n_kv * d_head], -1)
    groups = y.unflatten(-1, (n_kv, n_heads // n_kv + 2, d_head))
    by_group = tuple(x.flatten(2, 3).transpose(1, 2) for x in (groups[..., :-2, :], groups[..., -2:-1, :], groups[..., -1:, :]))
    return {
        "blocks": (by_heads(q, d_head), by_heads(k, d_head), by_heads(v, d_head)),
        "heads" if n_kv == n_heads else "groups": (by_group[0], by_group[1], by_group[2]),
    }


def find_attention(block: Block, update: Update, affine: list[Affine]) -> Attention:
    """Find how an update follows from attention. Raises Refused with the first step that fails."""
    outputs = [(projection, after) for raw, after in block.behind_norms(update.value) for projection in affine if is_same(projection.y, raw)]
    if len(outputs) != 1:
        raise Refused(f"{len(outputs)} output projections give {update.calls[0].path}")
    (o, after), trace = outputs[0], block.traced.trace
    # the hooks look for them where they are looked for here
    around = o.call.path.rpartition(".")[0]
    given = [x for call in trace.by_path[around] if block.call.start < call.start < block.call.end for x in call.outputs[1:2]]
    square = [x for x in given if x.is_floating_point() and x.dim() == 4 and x.shape[0] == trace.batch and x.shape[2:] == (trace.seq, trace.seq)]
    if not square:
        raise Refused("no module gave attention weights")
    pattern = square[0]
    n_heads, gathered = pattern.shape[1], o.x
    d_head, left = divmod(gathered.shape[-1], max(n_heads, 1))
    if left or not n_heads or not d_head:
        raise Refused(f"what is gathered, {gathered.shape[-1]} wide, does not divide into {n_heads} heads")
    if float(pattern.triu(1).abs().max()) > 0:
        raise Refused("a position attends to later ones")
    if float((pattern.sum(-1) - 1).abs().max()) > 1e-4:
        raise Refused("the weights of a position do not sum to 1 (attention sinks)")
    v, layout, fused, norm = find_values(block, affine, o, pattern, d_head)
    found = find_pattern(block, affine, v, fused, pattern, d_head)
    _, window = read_mask(pattern)
    named = {x for name, x in block.traced.numbers.items() if "window" in name or "local" in name}
    # weights that are too small for float32 are zero as well
    if window is not None and window not in named:
        raise Refused(f"its last position attends to {window} of {trace.seq}, and its configuration names no such window")
    return Attention(update, o.call, after, norm, v.call, layout, n_heads, found, window)


def find_values(block: Block, affine: list[Affine], o: Affine, pattern: Tensor, d_head: int) -> Values:
    """Find the projection of the values: (projection, layout, q and k if they are fused with it, the norm that it reads the stream through)."""
    n_heads = pattern.shape[1]
    found: list[Values] = []

    def gathers(v: Tensor) -> bool:
        return holds((pattern @ for_heads(v, n_heads)).transpose(1, 2).flatten(2), o.x)

    for projection in affine:
        reads = find_reads(block, projection.x, {"resid_pre": block.pre}) if projection.call.end < o.call.start else []
        if not reads:
            continue
        n_kv, left = divmod(projection.y.shape[-1], d_head)
        if not left and n_kv and n_heads % n_kv == 0 and gathers(by_heads(projection.y, d_head)):
            found.append((projection, "apart", None, reads[0][1]))
        found += [(projection, layout, (q, k), reads[0][1]) for layout, (q, k, v) in cut_projection(projection.y, n_heads, d_head).items() if gathers(v)]
    # layouts that cut out the same numbers are one: of a single key head
    if not found or any(not is_same_cut(found[0], other) for other in found[1:]):
        raise Refused(f"{len(found)} projections of the state before the block give the values that its heads gather")
    return found[0]


def is_same_cut(a: Values, b: Values) -> bool:
    """Tell whether two ways to find the values cut the same q and k out of one projection."""
    return a[0] is b[0] and a[2] is not None and b[2] is not None and all(map(is_same, a[2], b[2]))


def by_heads(y: Tensor, d_head: int) -> Tensor:
    """Cut what a projection gave, [batch, seq, rows], into heads, [batch, heads, seq, d_head]."""
    return y.unflatten(-1, (-1, d_head)).transpose(1, 2)


def find_pattern(block: Block, affine: list[Affine], v: Affine, fused: tuple[Tensor, Tensor] | None, pattern: Tensor, d_head: int) -> Pattern:
    """Find the one way in which queries and keys give the pattern. Raises Refused if there is none, or more than one."""
    n_heads, angles = pattern.shape[1], find_angles(block) if block.turn is None else [block.turn]
    if fused is not None:
        pairs = [(v.call, v.call, *fused)]
    else:
        near = [p for p in affine if p.call is not v.call and p.y.shape[-1] % d_head == 0 and is_same(p.x, v.x)]
        queries = [p for p in near if p.y.shape[-1] == n_heads * d_head]
        pairs = [(q.call, k.call, by_heads(q.y, d_head), by_heads(k.y, d_head)) for q in queries for k in near if q is not k and k.y.shape[-1] == v.y.shape[-1]]
    found, nearest = [], inf
    for q_call, k_call, q_raw, k_raw in pairs:
        for q, q_norm in behind_qk_norm(block, q_raw):
            for k, k_norm in behind_qk_norm(block, k_raw):
                if (q_norm is None) != (k_norm is None):
                    continue
                turns = [(turn, side) for turn in angles if 2 * turn.cosine.shape[1] <= d_head for side in (False, True)]
                for turn, is_adjacent in [(None, False), *turns] if block.turn is None else turns:
                    turned = (q, k) if turn is None else tuple(rotate_pairs(x, turn.cosine, turn.sine, is_adjacent) for x in (q, k))
                    products = turned[0] @ for_heads(turned[1], n_heads).mT
                    for scale, softcap, slopes, error in find_scales(block, products, pattern, d_head):
                        nearest = min(nearest, error)
                        if error < PATTERN_TOLERANCE:
                            found.append(Pattern(q_call, k_call, q_norm, k_norm, turn, is_adjacent, scale, softcap, slopes))
    ways = {(w.q.path, w.k.path, w.q_norm and w.q_norm.path, w.k_norm and w.k_norm.path, w.softcap): w for w in reversed(found)}
    if len(ways) != 1:
        raise Refused(f"{len(ways)} ways of queries and keys give the pattern (nearest error {nearest:.1e})")
    return next(iter(ways.values()))


def behind_qk_norm(block: Block, raw: Tensor) -> Iterator[tuple[Tensor, Call | None]]:
    """List the queries or keys, [batch, heads, seq, d_head], from what their projection gave: itself, and what a norm made of it."""
    yield raw, None
    for call in block.inside:
        if not call.inputs or not call.outputs or call.inputs[0].shape != call.outputs[0].shape or call.inputs[0].numel() != raw.numel():
            continue
        for given, gave in zip(views(call.inputs[0], raw), views(call.outputs[0], raw), strict=True):
            if error_between(given, raw) < 1e-6 and error_between(gave, raw) > 1e-4:
                yield gave, call
                break


def views(x: Tensor, like: Tensor) -> list[Tensor]:
    """List the ways to read a tensor as [batch, heads, seq, d_head]: positions before heads, or behind them."""
    batch, heads, seq, d_head = like.shape
    return [x.reshape(batch, seq, heads, d_head).transpose(1, 2), x.reshape(batch, heads, seq, d_head)]


def read_mask(pattern: Tensor) -> tuple[Tensor, int | None]:
    """Find which sources a destination may look at, [seq, seq], and the window that says so: as many as the last position looks at; None for all."""
    seq, seen = pattern.shape[-1], int((pattern > 0).any(0).any(0).sum(-1)[-1])
    distance = torch.arange(seq)[:, None] - torch.arange(seq)
    return (distance >= 0) & (distance < seen), seen if seen < seq else None


def find_scales(block: Block, products: Tensor, pattern: Tensor, d_head: int) -> Iterator[tuple[float, float | None, tuple[float, ...] | None, float]]:
    """List the scales, caps and slopes by which products q·k come near a pattern, both [batch, heads, seq, seq]: (scale, cap, slopes, error)."""
    # of every head and row, whatever else is hidden in the pattern: what the window does not tell is an error
    seen, _ = read_mask(pattern)
    likely = pattern > 1e-25
    weights = likely.float()
    rows = weights.sum(-1, keepdim=True).clamp_min(1)

    def centre_rows(x: Tensor) -> Tensor:
        return (x - (x * weights).sum(-1, keepdim=True) / rows) * weights

    def error_of(scores: Tensor) -> float:
        return float((scores.masked_fill(~seen, HIDDEN).softmax(-1) - pattern).abs().max())

    log_pattern = centre_rows(pattern.clamp_min(1e-30).log())
    at = centre_rows(products)
    scale = snap_scale(float((at * log_pattern).sum() / at.square().sum().clamp_min(1e-30)), d_head, block)
    error = error_of(products * scale)
    yield scale, None, None, error
    if error < PATTERN_TOLERANCE:
        return
    # ALiBi: a slope a head
    place = torch.arange(products.shape[-1], dtype=torch.float32)
    distance = (place[:, None] - place).expand_as(products)
    away = centre_rows(-distance)
    gram = torch.stack([(a * b).sum((0, 2, 3)) for a in (at, away) for b in (at, away)], -1).unflatten(-1, (2, 2)).double()
    both = torch.stack([(a * log_pattern).sum((0, 2, 3)) for a in (at, away)], -1).double()
    of_scores, slopes = torch.linalg.lstsq(gram, both[..., None]).solution[..., 0].float().unbind(-1)
    if float((of_scores - of_scores.mean()).abs().max()) < 1e-3:
        scale = snap_scale(float(of_scores.mean()), d_head, block)
        if float(slopes.abs().max()) > 1e-4:
            yield scale, None, tuple(slopes.tolist()), error_of(products * scale - slopes[:, None, None] * distance)
    positive = {name: x for name, x in block.traced.numbers.items() if x > 0}
    caps = [x for name, x in positive.items() if "cap" in name]
    scales = {d_head**-0.5, *(x**power for name, x in positive.items() if "scal" in name or "mult" in name for power in (-0.5, 1))}
    for cap in caps:
        for scale in scales:
            yield scale, cap, None, error_of(cap * torch.tanh(products * scale / cap))


def snap_scale(scale: float, d_head: int, block: Block) -> float:
    """Snap a factor on scores to 1/√d_head, to 1, or to a number of the configuration or its inverse root."""
    named = [x**power for x in block.traced.numbers.values() if x > 0 for power in (1, -0.5)]
    return next((name for name in (d_head**-0.5, 1.0, *named) if abs(scale - name) < 1e-4 * name), scale)
