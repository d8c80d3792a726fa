"""Numbers of a prediction on the CPU, computed from a row of logits in two passes over it while it is in the processor's cache.

Torch's operations would read a chunk of logits from memory once for each of logsumexp, softmax, product, maximum and rank. Here the first pass over a row
gives its maximum and the rank of the token that follows; the second gives the three sums from which all else is computed. The exponential is a polynomial of
degree 7 (Moshier's Cephes, expf), since the loop could not be vectorised with a library call.
"""

import numba
import numpy as np

TILE = 256
"""Number of logits in a tile. Each tile is summed in float32, and the sums of all tiles are added in float64."""

LOG2_E = np.float32(1.4426950408889634)
LN2_HIGH, LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
"""ln 2 in two parts: the first has few bits, so that its product with an exponent is exact."""

LOWEST = np.float32(-87.0)
"""Lower limit of x. Below it e^x is no normal float32, and is negligible beside the largest logit, whose e^0 is 1."""


@numba.njit(inline="always", fastmath={"contract", "nsz", "nnan", "reassoc"})
def max_and_count_above(row, own):  # type: ignore[no-untyped-def]
    """Find the largest logit of a row, and count the logits that are larger than `own`."""
    largest, n = row[0], np.int32(0)
    for j in range(row.shape[0]):
        largest = max(largest, row[j])
        n += np.int32(row[j] > own)
    return largest, n


@numba.njit(inline="always", fastmath={"contract", "nsz", "reassoc"})
def sums(row, largest, marked, powers, mantissas):  # type: ignore[no-untyped-def]
    """Compute Σ e^x, Σ x·e^x and Σ marked·e^x over a row; x is the logit less the largest. powers, mantissas: scratch, [TILE] int32 and float32."""
    total, product, begun = 0.0, 0.0, 0.0
    scales = powers.view(np.float32)
    for start in range(0, row.shape[0], TILE):
        n = min(TILE, row.shape[0] - start)
        for j in range(n):
            x = max(row[start + j] - largest, LOWEST)
            power = np.floor(x * LOG2_E + np.float32(0.5))
            r = x - power * LN2_HIGH
            r = r - power * LN2_LOW
            p = np.float32(1.9875691500e-4)
            p = p * r + np.float32(1.3981999507e-3)
            p = p * r + np.float32(8.3334519073e-3)
            p = p * r + np.float32(4.1665795894e-2)
            p = p * r + np.float32(1.6666665459e-1)
            p = p * r + np.float32(5.0000001201e-1)
            mantissas[j] = p * r * r + r + np.float32(1)
            powers[j] = (np.int32(power) + np.int32(127)) << np.int32(23)
        of_tile, product_of_tile, begun_of_tile = np.float32(0), np.float32(0), np.float32(0)
        for j in range(n):
            e = mantissas[j] * scales[j]
            of_tile += e
            product_of_tile += e * (row[start + j] - largest)
            begun_of_tile += e * marked[start + j]
        total += of_tile
        product += product_of_tile
        begun += begun_of_tile
    return total, product, begun


@numba.njit(parallel=True, nogil=True, error_model="numpy", cache=True)
def read_logits(logits, following, marked, numbers, ranks, tops, n_threads):  # type: ignore[no-untyped-def]
    """Compute predictions from rows of logits [rows, d_vocab] float32, and write them to numbers, ranks and tops.

    following: the token after each row, -1 for none, [rows] int64. marked: 1 for tokens that begin a word, else 0, [d_vocab] float32.
    numbers: surprisal (0 if no token follows), entropy, probability of the top token and of a marked token, [rows, 4] float32.
    ranks: rank of the token that follows, 0 for none, [rows] int32. tops: the top token, [rows] int32.
    """
    each = (len(logits) + n_threads - 1) // n_threads
    for thread in numba.prange(n_threads):
        powers, mantissas = np.empty(TILE, np.int32), np.empty(TILE, np.float32)
        for i in range(thread * each, min(len(logits), (thread + 1) * each)):
            row, token = logits[i], following[i]
            own = row[token] if token >= 0 else np.float32(np.inf)
            largest, n_before = max_and_count_above(row, own)
            total, product, begun = sums(row, largest, marked, powers, mantissas)
            top = 0
            while row[top] < largest:
                top += 1
            log_total = np.log(total)
            numbers[i, 0] = log_total - (np.float64(own) - largest) if token >= 0 else 0.0
            numbers[i, 1] = log_total - product / total
            numbers[i, 2] = 1 / total
            numbers[i, 3] = begun / total
            tops[i] = top
            ranks[i] = 0
            if token >= 0:
                for j in range(token):
                    n_before += np.int32(row[j] == own)
                ranks[i] = n_before + 1
