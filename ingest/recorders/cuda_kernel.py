"""One pass over a batch of coefficients on an NVIDIA GPU: moments, histogram, and the cells that may be new triggers.

A thread reads the rows of a run in one neuron's column, so that a batch is read once and threads share nothing: moments stay in registers, the histogram is
counted in 16 bits in shared memory, in a column of the thread's own. What beats the k-th best known is appended to a list, with an atomic counter: after
the first batches that is almost nothing.
"""

from typing import Any

import numpy as np
from numba import cuda, float32, uint16

from ingest.recorders.kernel import FIRST_OCTAVE, HALF
from schema.terms import HISTOGRAM_BINS

THREADS = 128
"""Of a block: as many neurons."""

RUN = 512
"""Rows that one thread reads: enough threads for a small layer, and few enough rows for 16 bits."""

AT_ONCE = 8
"""Rows that are read before the first is looked at, so that a thread waits for memory once."""


def scan_kernel(is_bfloat16: bool, is_padded: bool) -> Any:
    """The kernel for coefficients that are bfloat16, as uint16 with the same bits, or float32, with padded rows among them or without."""

    @cuda.jit
    def scan(  # type: ignore[no-untyped-def]
        x, positions, gates, gate_positions, total, square, low, high, n_active, histogram, n_found, found_row, found_key
    ):  # fmt: skip
        """Reduce a batch of one layer.

        x: [rows, d_ffn]; positions: position_id of each row, -1 where padded, [rows] int64.
        gates, gate_positions: the k-th best of both tails, the min tail's with its sign turned, and where: [2, d_ffn].
        total, square, low, high, n_active: of each run of rows, [runs, d_ffn]; histogram: zeros to add to, [HISTOGRAM_BINS, d_ffn] int32.
        n_found: cells in the list, [1] int32; found_row, found_key: [capacity] int32. Beyond the capacity they are counted and not kept.
        A key is a neuron or, of the min tail, d_ffn and the neuron.
        """
        counts = cuda.shared.array((HISTOGRAM_BINS, THREADS), uint16)
        # unsigned, for a signed index may count from the end, and each is asked whether it does
        thread = np.uint32(cuda.threadIdx.x)
        neuron = np.uint32(np.uint32(cuda.blockIdx.x) * np.uint32(THREADS) + thread)
        if neuron >= x.shape[1]:
            return
        for b in range(HISTOGRAM_BINS):
            counts[b, thread] = 0
        run = np.uint32(cuda.blockIdx.y)
        first = np.uint32(run * np.uint32(RUN))
        end = min(np.uint32(x.shape[0]), np.uint32(first + np.uint32(RUN)))
        gate_high, gate_low = gates[0, neuron], -gates[1, neuron]
        last_high, last_low = gate_positions[0, neuron], gate_positions[1, neuron]
        added, squared = np.float64(0), np.float64(0)
        least, most, active = np.float32(np.inf), np.float32(-np.inf), np.int32(0)
        read = cuda.local.array(AT_ONCE, float32)
        for start in range(first, end, np.uint32(AT_ONCE)):
            for i in range(AT_ONCE):
                bits = x[np.uint32(min(start + np.uint32(i), end - np.uint32(1))), neuron]
                read[i] = np.uint32(np.uint32(bits) << np.uint32(16)).view(np.float32) if is_bfloat16 else np.float32(bits)
            for i in range(AT_ONCE):
                row = np.uint32(start + np.uint32(i))
                if row < end and (not is_padded or positions[row] >= 0):
                    v = read[i]
                    wide = np.float64(v)
                    added += wide
                    squared += wide * wide
                    least, most = min(least, v), max(most, v)
                    active += np.int32(v > 0)
                    octave = ((v.view(np.int32) & np.int32(0x7FFFFFFF)) >> np.int32(22)) - np.int32(FIRST_OCTAVE)
                    octave = max(np.int32(0), min(np.int32(HALF - 1), octave))
                    bin_ = np.uint32(np.int32(HALF) + octave if v >= 0 else np.int32(HALF - 1) - octave)
                    counts[bin_, thread] += uint16(1)
                    if v >= gate_high or v <= gate_low:
                        position = positions[row]
                        if v > gate_high or (v == gate_high and position < last_high):
                            place = cuda.atomic.add(n_found, 0, 1)
                            if place < found_row.shape[0]:
                                found_row[place], found_key[place] = row, neuron
                        if v < gate_low or (v == gate_low and position < last_low):
                            place = cuda.atomic.add(n_found, 0, 1)
                            if place < found_row.shape[0]:
                                found_row[place], found_key[place] = row, np.uint32(x.shape[1]) + neuron
        total[run, neuron], square[run, neuron] = added, squared
        low[run, neuron], high[run, neuron], n_active[run, neuron] = least, most, active
        for b in range(HISTOGRAM_BINS):
            cuda.atomic.add(histogram, (b, neuron), np.int32(counts[b, thread]))

    return scan
