"""One pass over a batch of coefficients on the CPU: moments, a histogram and the top-k triggers.

The sweep may cost only a few per cent of the forward pass; at ~100M coefficients a batch, that is about one read of
memory. Rows are therefore processed in tiles that stay in the cache. One vector loop over a tile gives the moments and
the extremes of each column. Only a column whose extreme reaches the neuron's k-th best is read again; after the first
batches, almost no column does. New triggers are as rare, and the coefficients at the tokens before them are still in the
cache. The histogram is counted in 16 bits, which halves the cache that it needs, and is added to the totals once per call.
"""

import numba
import numpy as np

from schema.terms import HISTOGRAM_BINS, HISTOGRAM_MIN_EXPONENT, PRECEDING

TILE_ROWS = 16
TILE_COLUMNS = 256
MAX_ROWS = 65535
"""Most rows in a call: the largest 16-bit count."""

HALF = HISTOGRAM_BINS // 2
FIRST_OCTAVE = 2 * (127 + HISTOGRAM_MIN_EXPONENT) - 1
"""Number of the half octave below the first regular bin: a float32's exponent and leading mantissa bit, read as one integer."""

NOWHERE = np.iinfo(np.int64).max
"""Position in an empty place of a heap; any real position beats it."""


ABSENT = -128
"""Level at a place before the start of the sequence, where there is no token."""


@numba.njit(inline="always")
def replace_worse(coefficients, positions, places, i, coefficient, position):  # type: ignore[no-untyped-def]
    """Replace the i-th trigger of a heap, whose root is the worst trigger, by a better one.

    Worse means a smaller coefficient or, if coefficients are equal, a larger position.
    Returns the index, in the arrays beside the heap, that the better trigger takes over from the one it replaces.
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
    """Find the index, in a heap, of the trigger that a new one replaces. The new trigger is better than the worst.

    The trigger with the same context is replaced, or none (-1) if the new one is not better; if no trigger has the same context, the worst is replaced.
    contexts: by index in the arrays beside the heap; empty if contexts do not matter.
    """
    if contexts.shape[0] == 0:
        return 0
    for i in range(coefficients.shape[0]):
        if contexts[places[i]] == context and positions[i] != NOWHERE:
            return i if coefficient > coefficients[i] or (coefficient == coefficients[i] and position < positions[i]) else -1
    return 0


@numba.njit(inline="always")
def keep_preceding(x, row, column, n_before, levels):  # type: ignore[no-untyped-def]
    """Write the column's coefficients in the PRECEDING rows before `row` as levels, 127ths of the largest; return the size of a level.

    n_before: rows of the same sequence before `row`. Levels before the sequence's start are ABSENT.
    """
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
    """Add some rows of a batch to the running reductions of one layer, in place.

    x, bits: coefficients [rows, d_ffn] float32 and the same memory as int32.
    row_positions, row_indices, row_contexts: position_id, place in the sequence and context of each row, [rows].
    rows: numbers of the rows that count, ascending; other rows are used only as tokens before a trigger.
    total, square: float64 [d_ffn]; low, high: float32 [d_ffn]; n_active: int64 [d_ffn]; histogram: int64 [d_ffn, HISTOGRAM_BINS].
    best, best_positions: [2, d_ffn, k], a heap for each tail; coefficients of the min tail are negated.
    places: [2, d_ffn, k], the index along k of each trigger in levels [2, d_ffn, k, PRECEDING], scales [2, d_ffn, k] and contexts [2, d_ffn, k].
    If contexts do not matter, contexts is [2, d_ffn, 0] and row_contexts is [0].
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
