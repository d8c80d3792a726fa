"""One pass over a batch of coefficients on the CPU: moments, histogram, and the gate in front of the top-k.

The sweep may cost only a few per cent of the forward pass, and at ~100M coefficients a batch that is about one read of
memory. Rows are taken in tiles that stay in the cache. The moments and the extremes of each column come from one vector
loop over a tile; only a column whose extreme reaches the neuron's k-th best is looked at again, which after the first
batches is almost none, and so are new triggers, whose tokens before them are in the cache. The histogram is counted in
16 bits, which halves the cache it needs, and added up once a call.
"""

import numba
import numpy as np

from schema.terms import HISTOGRAM_BINS, HISTOGRAM_MIN_EXPONENT, PRECEDING

TILE_ROWS = 16
TILE_COLUMNS = 256
MAX_ROWS = 65535
"""Rows a call may have: the most that a 16-bit count holds."""

HALF = HISTOGRAM_BINS // 2
FIRST_OCTAVE = 2 * (127 + HISTOGRAM_MIN_EXPONENT) - 1
"""Exponent and leading mantissa bit of a float32, as an integer, of the half octave below the first regular bin."""

NOWHERE = np.iinfo(np.int64).max
"""Position of a heap place that holds no trigger yet; any real position beats it."""


ABSENT = -128
"""Level of a token that is not there: the sequence begins after it."""


@numba.njit(inline="always")
def replace_worse(coefficients, positions, places, i, coefficient, position):  # type: ignore[no-untyped-def]
    """Put a better trigger in the place of the i-th of a heap, which keeps the worst at its root.

    Worse means a smaller coefficient or, of equal ones, the larger position.
    Returns the place that the worse one held in what is kept beside the heap, and now the better one holds.
    """
    k = coefficients.shape[0]
    freed = places[i]
    while True:
        child = 2 * i + 1
        if child >= k:
            break
        right = child + 1
        if right < k and (coefficients[right] < coefficients[child] or (coefficients[right] == coefficients[child] and positions[right] > positions[child])):
            child = right
        if coefficients[child] > coefficient or (coefficients[child] == coefficient and positions[child] < position):
            break
        coefficients[i] = coefficients[child]
        positions[i] = positions[child]
        places[i] = places[child]
        i = child
    coefficients[i] = coefficient
    positions[i] = position
    places[i] = freed
    return freed


@numba.njit(inline="always")
def find_replaced_place(coefficients, positions, places, contexts, context, coefficient, position):  # type: ignore[no-untyped-def]
    """Find what of a heap a trigger that is better than the worst replaces: the one of the same context, else the worst. -1 where that one is no worse.

    contexts: of each place beside the heap; none where contexts do not matter.
    """
    if contexts.shape[0] == 0:
        return 0
    for i in range(coefficients.shape[0]):
        if contexts[places[i]] == context and positions[i] != NOWHERE:
            return i if coefficient > coefficients[i] or (coefficient == coefficients[i] and position < positions[i]) else -1
    return 0


@numba.njit(inline="always")
def keep_preceding(x, row, column, n_before, levels):  # type: ignore[no-untyped-def]
    """Write the column's coefficients in the rows before `row`, `n_before` of its sequence, as levels of their largest; returns a level's size."""
    first = max(0, PRECEDING - n_before)
    largest = np.float32(0)
    for i in range(first, PRECEDING):
        largest = max(largest, abs(x[row - PRECEDING + i, column]))
    scale = largest / np.float32(127)
    for i in range(PRECEDING):
        if i < first:
            levels[i] = ABSENT
        elif scale > 0:
            levels[i] = np.int8(np.rint(x[row - PRECEDING + i, column] / scale))
        else:
            levels[i] = 0
    return scale


@numba.njit(parallel=True, nogil=True, fastmath={"contract", "nsz", "nnan"}, error_model="numpy", cache=True)
def reduce_rows(  # type: ignore[no-untyped-def]
    x,
    bits,
    rows,
    row_positions,
    row_indices,
    row_contexts,
    total,
    square,
    low,
    high,
    n_active,
    histogram,
    best,
    best_positions,
    places,
    levels,
    scales,
    contexts,
    n_threads,
):
    """Add some rows of a batch of one layer to its running reductions, in place.

    x, bits: coefficients [rows, d_ffn] float32 and the same memory as int32; row_positions, row_indices in the sequence, and row_contexts: [rows].
    rows: numbers of the rows that count, ascending; the others are read only as the tokens before a trigger.
    total, square: float64 [d_ffn]; low, high: float32 [d_ffn]; n_active: int64 [d_ffn]; histogram: int64 [d_ffn, HISTOGRAM_BINS].
    best, best_positions: [2, d_ffn, k], a heap for each tail, the min tail with its sign turned.
    places: [2, d_ffn, k], where the coefficients before each trigger lie in levels [2, d_ffn, k, PRECEDING] and scales [2, d_ffn, k], and its context in
    contexts [2, d_ffn, k]; contexts [2, d_ffn, 0] and row_contexts [0] where they do not matter.
    """
    d_ffn, is_distinct = x.shape[1], contexts.shape[2] > 0
    width = (d_ffn + n_threads - 1) // n_threads
    for thread in numba.prange(n_threads):
        first, last = thread * width, min(d_ffn, (thread + 1) * width)
        n = max(0, last - first)
        counts = np.zeros((n, HISTOGRAM_BINS), np.uint16)
        active = np.zeros(n, np.int32)
        bins = np.empty(TILE_COLUMNS, np.uint8)
        tile_low, tile_high = np.empty(n, np.float32), np.empty(n, np.float32)
        # the k-th best of both tails side by side: in the heaps they lie k apart, a cache line each
        gate_high, gate_low = best[0, first:last, 0].copy(), -best[1, first:last, 0]
        for tile in range(0, len(rows), TILE_ROWS):
            tile_rows = rows[tile : tile + TILE_ROWS]
            tile_low[:] = np.float32(np.inf)
            tile_high[:] = np.float32(-np.inf)
            for r in tile_rows:
                for j in range(n):
                    wide = np.float64(x[r, first + j])
                    total[first + j] += wide
                    square[first + j] += wide * wide
                for j in range(n):
                    v = x[r, first + j]
                    tile_low[j] = min(tile_low[j], v)
                    tile_high[j] = max(tile_high[j], v)
                    active[j] += np.int32(v > 0)
            for j in range(n):
                low[first + j] = min(low[first + j], tile_low[j])
                high[first + j] = max(high[first + j], tile_high[j])
            for j in range(n):
                if tile_high[j] >= gate_high[j]:
                    for r in tile_rows:
                        v, p = x[r, first + j], row_positions[r]
                        if v >= gate_high[j] and (v > gate_high[j] or p < best_positions[0, first + j, 0]):
                            values, positions, held = best[0, first + j], best_positions[0, first + j], places[0, first + j]
                            context = row_contexts[r] if is_distinct else 0
                            i = find_replaced_place(values, positions, held, contexts[0, first + j], context, v, p)
                            if i >= 0:
                                place = replace_worse(values, positions, held, i, v, p)
                                scales[0, first + j, place] = keep_preceding(x, r, first + j, row_indices[r], levels[0, first + j, place])
                                if is_distinct:
                                    contexts[0, first + j, place] = context
                            gate_high[j] = best[0, first + j, 0]
                if tile_low[j] <= gate_low[j]:
                    for r in tile_rows:
                        v, p = x[r, first + j], row_positions[r]
                        if v <= gate_low[j] and (v < gate_low[j] or p < best_positions[1, first + j, 0]):
                            values, positions, held = best[1, first + j], best_positions[1, first + j], places[1, first + j]
                            context = row_contexts[r] if is_distinct else 0
                            i = find_replaced_place(values, positions, held, contexts[1, first + j], context, -v, p)
                            if i >= 0:
                                place = replace_worse(values, positions, held, i, -v, p)
                                scales[1, first + j, place] = keep_preceding(x, r, first + j, row_indices[r], levels[1, first + j, place])
                                if is_distinct:
                                    contexts[1, first + j, place] = context
                            gate_low[j] = -best[1, first + j, 0]
            for start in range(0, n, TILE_COLUMNS):
                end = min(n, start + TILE_COLUMNS)
                for r in tile_rows:
                    for j in range(start, end):
                        octave = ((bits[r, first + j] & np.int32(0x7FFFFFFF)) >> np.int32(22)) - np.int32(FIRST_OCTAVE)
                        octave = max(np.int32(0), min(np.int32(HALF - 1), octave))
                        bins[j - start] = np.int32(HALF) + octave if x[r, first + j] >= 0 else np.int32(HALF - 1) - octave
                    for j in range(start, end):
                        counts[j, bins[j - start]] += np.uint16(1)
        for j in range(n):
            n_active[first + j] += np.int64(active[j])
            for b in range(HISTOGRAM_BINS):
                histogram[first + j, b] += np.int64(counts[j, b])
