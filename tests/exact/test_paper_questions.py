"""Figures and tables of Geva et al. 2021 over keys and values, as the questions give them, against plain loops over keys and positions."""

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import atlas
from atlas.papers.examples import EXAMPLES
from tests.exact.checks import Case
from tests.exact.crafted import K, ask, same, softmax, telling, value_scores


def ranked_positions(c: Case, layer: int, neuron: int) -> list[int]:
    """The K positions with the largest coefficients that are above 0, equal ones in order."""
    m = np.asarray(c.activations.coefficients[layer][:, neuron])
    return [int(p) for p in np.argsort(-m, kind="stable")[:K] if m[p] > 0]


def judged_keys(c: Case, *layers: int) -> Iterator[tuple[int, int, int]]:
    """(layer, neuron, following token) of every key with a trigger whose document goes on; of all layers where none is named."""
    for layer in layers or range(c.n_layers):
        for neuron in range(c.d_ffn):
            triggers = ranked_positions(c, layer, neuron)
            if triggers and c.cut.next_token_ids[triggers[0]] >= 0:
                yield layer, neuron, int(c.cut.next_token_ids[triggers[0]])


def test_figure_4(c: Case) -> None:
    want = []
    for layer in range(c.n_layers):
        agrees = [value_scores(c, layer, neuron).argmax() == following for _, neuron, following in judged_keys(c, layer)]
        want.append((layer, np.mean(agrees), 1 / c.d_vocab, len(agrees), sum(agrees), c.d_ffn - len(agrees)))
    telling(c, all(row[4] >= 5 and row[4] < row[3] for row in want), "every layer has keys that agree and keys that do not")
    telling(c, sum(row[5] for row in want) > c.n_layers, "dead keys are left out, and so are keys whose top trigger ends a document")
    same(ask(c, "geva2021_fig4()", "layer, agreement_rate, chance, n_keys, n_agreeing, n_left_out"), want)


def test_figure_5(c: Case) -> None:
    want = []
    for layer in range(c.n_layers):
        ranks = []
        for _, neuron, following in judged_keys(c, layer):
            scores = value_scores(c, layer, neuron)
            ranks.append(1 + (scores > scores[following]).sum() + (scores[:following] == scores[following]).sum())
        q1, median, q3 = np.quantile(ranks, [0.25, 0.5, 0.75])
        low, high = q1 - 1.5 * (q3 - q1), q3 + 1.5 * (q3 - q1)
        within = [r for r in ranks if low <= r <= high]
        want.append((layer, min(ranks), min(within), q1, median, q3, max(within), max(ranks), len(ranks)))
    telling(c, any(row[6] < row[7] for row in want) or any(row[1] < row[2] for row in want), "some layer has an outlier")
    same(ask(c, "geva2021_fig5()", "layer, min_rank, lower_whisker, q1, median, q3, upper_whisker, max_rank, n_keys"), want)


def test_figure_6(c: Case) -> None:
    bins: list[list[bool]] = [[] for _ in range(10)]
    edges = [c.d_vocab ** (b / 10 - 1) for b in range(11)]
    for layer, neuron, following in judged_keys(c):
        scores = value_scores(c, layer, neuron)
        largest = softmax(scores).max()
        place = next(b for b in range(10) if largest < edges[b + 1] or b == 9)
        bins[place].append(bool(scores.argmax() == following))
    want = [(b, edges[b], edges[b + 1], len(found), np.mean(found) if found else None) for b, found in enumerate(bins)]
    telling(c, sum(n > 0 for _, _, _, n, _ in want) >= 5, "keys lie in half of the bins")
    got = ask(c, "geva2021_fig6()", "bin, lower_edge, upper_edge, n_keys, agreement_rate")
    assert [row[4] is None for row in got] == [row[4] is None for row in want]
    same([tuple(x or 0 for x in row) for row in got], [tuple(x or 0 for x in row) for row in want])


def test_top_values_and_table_2(c: Case) -> None:
    found = []
    for layer in range(c.n_layers):
        for neuron in range(c.d_ffn):
            scores, triggers = value_scores(c, layer, neuron), ranked_positions(c, layer, neuron)
            token = int(scores.argmax())
            followed = [p for p in triggers if c.cut.next_token_ids[p] == token]
            found.append((softmax(scores).max(), layer, neuron, token, len(triggers), followed))
    best = max(n for *_, n, _ in found)
    of = {(layer, neuron): (prob, n, fallen) for prob, layer, neuron, _, n, fallen in found}
    got = ask(c, "geva2021_top_values(n := 1000)", "layer, neuron, max_prob, n_triggers, n_followed, is_upper")
    # by key, because rounding may swap neighbours of a ranking; the ranking itself by its probabilities
    first_upper = {3: 2, 5: 4}[c.n_layers]  # at or above 5/8 of them
    want = [(prob, n, len(followed), layer >= first_upper) for layer, neuron, *_ in got for prob, n, followed in [of[layer, neuron]]]
    same([row[2:] for row in got], want)
    same([(row[2],) for row in got], [(prob,) for prob in sorted((prob for prob, _, _ in of.values()), reverse=True)[:1000]])
    counts = (100, first_upper, sum(row[3] for row in want[:100]), sum(row[2] > 0 for row in want[:100]))
    telling(c, 0 < counts[3] < 100, "some of them are followed")
    same(ask(c, "geva2021_top_values_summary()", "n_values, first_upper_layer, n_upper, n_followed"), [counts])
    full = {key: (len(followed) / n, n, followed[0] if followed else None) for key, (_, n, followed) in of.items() if n == best}
    telling(c, 10 < len(full) < len(found), "some keys have fewer triggers, and are left out")
    table = ask(c, "geva2021_table2(n := 10)", "layer, neuron, precision_at_50, n_triggers, position_id")
    same([row[2:4] for row in table], [full[row[0], row[1]][:2] for row in table])
    assert [row[4] for row in table] == [full[row[0], row[1]][2] for row in table]
    same([(row[2],) for row in table], [(precision,) for precision in sorted((precision for precision, _, _ in full.values()), reverse=True)[:10]])


def test_table_1_of_2021(c: Case, tmp_path: Path) -> None:
    """The key of each layer whose address has the smallest md5, and its first three triggers, at most one of a sequence."""
    want = []
    for layer in range(c.n_layers):
        neuron = min(range(c.d_ffn), key=lambda i: hashlib.md5(f"{layer} {i}".encode()).hexdigest())
        m = np.asarray(c.activations.coefficients[layer][:, neuron])
        strongest = sorted(range(len(m)), key=lambda p: (-m[p], p))[:K]
        first = {int(c.cut.sequence[p]): p for p in reversed(strongest)}
        for p in sorted((p for p in first.values() if m[p] > 0), key=lambda p: (-m[p], p))[:3]:
            text = c.texts[c.cut.document_of[c.cut.sequence[p]]].text
            begin, start, end = (int(x) for x in (c.cut.char_starts[p - c.cut.index[p]], c.cut.char_starts[p], c.cut.char_ends[p]))
            token = text[start:end] or c.tokenizer.decode([int(c.cut.token_ids[p])])
            want.append((layer, neuron, p, text[max(begin, start - 80) : start], token, text[end : end + 40], m[p]))
    file = shutil.copy(c.published.rows("SELECT path FROM duckdb_databases() WHERE NOT internal")[0][0], tmp_path)
    with atlas.open(file) as a:
        got = EXAMPLES.compute(a, corpus=None).select("layer", "neuron", "position_id", "text_before", "token", "text_after", "coefficient").rows()
    assert [row[:6] for row in got] == [row[:6] for row in want]
    same([row[6:] for row in got], [row[6:] for row in want])


def test_sequence_triggers(c: Case) -> None:
    n_folded = 0
    for layer in range(c.n_layers):
        for neuron in range(5):
            m = np.asarray(c.activations.coefficients[layer][:, neuron])
            best: dict[int, list[int]] = {}
            for p in sorted(range(len(m)), key=lambda p: (-m[p], p))[:K]:
                best.setdefault(int(c.cut.sequence[p]), []).append(p)
            want = [(i + 1, s, places[0], m[places[0]], len(places) - 1) for i, (s, places) in enumerate(best.items())]
            n_folded += sum(row[4] for row in want)
            same(ask(c, f"sequence_triggers({layer}, {neuron}, n := 100)", "rank, sequence_id, position_id, coefficient, n_folded"), want)
    assert n_folded > 0
