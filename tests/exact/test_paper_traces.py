"""Figures and tables of both papers over traced positions, as the questions give them, against plain loops over positions."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import atlas
from atlas.papers.traced_arrays import read_examples
from tests.exact.checks import Case
from tests.exact.crafted import ask, same, softmax, telling, value_scores

THRESHOLD = 3.0
N_TRACED = {"crafted opt": 300, "reference": 100}


@dataclass(frozen=True)
class Seen:
    """One FFN at one position: logits [d_vocab] at the sites around it, raw scores E·z of what it adds and of the block's output, coefficients [d_ffn],
    and what the model predicts in the end."""

    position: int
    layer: int
    mid: np.ndarray
    ffn: np.ndarray
    post: np.ndarray
    raw_ffn: np.ndarray
    raw_post: np.ndarray
    m: np.ndarray
    final: int

    @property
    def candidate(self) -> int:
        return int(self.mid.argmax())

    def outputs(self, projection: str) -> tuple[int, int]:
        """Top tokens of what the FFN adds and of the block's output."""
        both = (self.raw_ffn, self.raw_post) if projection == "raw" else (self.ffn, self.post)
        return int(both[0].argmax()), int(both[1].argmax())


@pytest.fixture(scope="module")
def seen(c: Case) -> list[list[Seen]]:
    """Every traced position as the list of its layers."""
    lens = {(site, layer): c.lens(site, layer) for site in ("resid_mid", "ffn_out", "resid_post") for layer in range(c.n_layers)}
    raw = {(site, layer): (c.site(site, layer) @ c.reference.embedding.T).numpy() for site in ("ffn_out", "resid_post") for layer in range(c.n_layers)}
    final = [int(logits.argmax()) for logits in c.activations.logits.numpy()]
    found = []
    for i, position in enumerate(c.activations.kept.tolist()):
        sites = (
            [*(lens[site, layer][i] for site in ("resid_mid", "ffn_out", "resid_post")), *(raw[site, layer][i] for site in ("ffn_out", "resid_post"))]
            for layer in range(c.n_layers)
        )
        found.append([Seen(position, layer, *of, c.kept_coefficients(layer)[i], final[i]) for layer, of in enumerate(sites)])
    assert len(found) == N_TRACED[c.name]
    return found


def at_layers(seen: list[list[Seen]]) -> Iterator[tuple[int, list[Seen]]]:
    for layer in range(len(seen[0])):
        yield layer, [position[layer] for position in seen]


def test_figure_7(c: Case, seen: list[list[Seen]]) -> None:
    want = []
    for layer, ffns in at_layers(seen):
        want.append((layer, sum(sum(1 for m in s.m if m > 0) for s in ffns) / len(ffns) / c.d_ffn, len(ffns)))
    assert all(0 < row[1] < 1 for row in want)
    same(ask(c, "geva2021_fig7()", "layer, active_share, n_positions"), want)
    rule = ask(c, "geva2021_fig7()", "DISTINCT activation, is_gated, threshold, active_means")
    assert rule == [("relu", False, 0.0, "coefficient > 0: on or off, as in the paper")]


@pytest.mark.parametrize("projection", ["raw", "final_norm"])
def test_figure_8_and_its_agreeing_cases(c: Case, seen: list[list[Seen]], projection: str) -> None:
    want, cases = [], []
    stop = dict(c.published.rows("SELECT token_id, is_stop_word FROM token"))
    for layer, ffns in at_layers(seen):
        tops = [value_scores(c, layer, neuron).argmax() for neuron in range(c.d_ffn)]
        zero, zero_block = 0, 0
        for s in ffns:
            active = {tops[neuron] for neuron in range(c.d_ffn) if s.m[neuron] > 0}
            ffn, post = s.outputs(projection)
            zero += ffn not in active
            zero_block += post not in active
            is_short = bool(c.cut.index[s.position] + 1 - (c.settings["bos"] is not None) < 5)
            cases.append(("ffn_out", ffn in active, stop[ffn], is_short))
            cases.append(("resid_post", post in active, stop[post], is_short))
        want.append((layer, zero / len(ffns), zero_block / len(ffns)))
    telling(c, all(0 < zero < 1 and 0 < block < 1 and zero != block for _, zero, block in want), "agreement comes and goes in every layer")
    same(ask(c, f"geva2021_fig8(projection := '{projection}')", "layer, zero_agreement, zero_agreement_block"), want)
    for got, site in zip(
        ask(c, f"geva2021_fig8_agreeing(projection := '{projection}')", "* EXCLUDE (projection, active_means)"), ("ffn_out", "resid_post"), strict=True
    ):
        every = [case for case in cases if case[0] == site]
        agreeing = [case for case in every if case[1]]
        shares = [np.mean([case[place] for case in some]) for some in (agreeing, every) for place in (2, 3)]
        telling(c, all(0 < share < 1 for share in shares), "no share is empty or full")
        assert got[0] == site
        same([got[1:]], [(len(every), len(agreeing), *shares)])


def test_figures_9_and_10(c: Case, seen: list[list[Seen]]) -> None:
    on_top, prob = [], []
    for layer, ffns in at_layers(seen):
        is_later = [c.cut.index[s.position] > 0 for s in ffns]
        leads, probs = [s.candidate == s.final for s in ffns], [softmax(s.mid)[s.final] for s in ffns]
        for found, of in ((on_top, leads), (prob, probs)):
            found.append((layer, np.mean(of), len(ffns), len(ffns) - sum(is_later), np.mean(np.array(of)[is_later])))
    assert all(0 < row[1] < 1 for row in on_top)
    same(ask(c, "geva2021_fig9()", "*"), on_top)
    same(ask(c, "geva2021_fig10()", "*"), prob)


@pytest.mark.parametrize("projection", ["raw", "final_norm"])
def test_figure_11_and_the_last_layer(c: Case, seen: list[list[Seen]], projection: str) -> None:
    want, last = [], []
    for layer, ffns in at_layers(seen):
        counts = {"agreement": 0, "residual": 0, "ffn": 0, "composition": 0}
        for s in ffns:
            o, r, y = s.post.argmax(), s.mid.argmax(), s.outputs(projection)[0]
            if o == r == y:
                counts["agreement"] += 1
            elif o == r:
                counts["residual"] += 1
            elif o == y:
                counts["ffn"] += 1
            else:
                counts["composition"] += 1
                last += [s.position] if layer == c.n_layers - 1 else []
        want.append((layer, *(n / len(ffns) for n in counts.values()), len(ffns)))
    telling(c, all(sum(row[place] > 0 for row in want) >= 2 for place in (1, 2, 3, 4)), "each of the four is in two layers at least")
    assert all(sum(row[1:5]) == pytest.approx(1) for row in want)
    same(ask(c, f"geva2021_fig11(projection := '{projection}')", "* EXCLUDE (projection)"), want)
    assert ask(c, f"geva2021_last_layer(projection := '{projection}', n := 1000)", "position_id") == [(p,) for p in sorted(last)]
    some = {p for (p,) in ask(c, f"geva2021_last_layer(projection := '{projection}', n := 5)", "position_id")}
    assert len(some) == min(5, len(last)) and some <= set(last)


def saturations(position: list[Seen]) -> list[int]:
    """Layers before the last where the final prediction becomes the top candidate for good."""
    found = []
    for s in position[:-1]:
        stays = all(later.post.argmax() == s.final for later in position[s.layer :])
        if s.candidate != s.final and stays:
            found.append(s.layer)
    return found


def largest_fall(position: list[Seen]) -> int | None:
    """Layer where the candidate loses the top place and falls furthest, the lowest of several; None if it loses it nowhere."""
    falls = {}
    for s in position:
        if s.post.argmax() != s.candidate:
            own = s.post[s.candidate]
            falls[s.layer] = sum(x > own or (x == own and w <= s.candidate) for w, x in enumerate(s.post))
    return max(falls, key=lambda layer: (falls[layer], -layer)) if falls else None


def is_input(c: Case, s: Seen) -> bool:
    """Whether the candidate is the token read at the position."""
    return s.candidate == int(c.cut.token_ids[s.position])


def test_events(c: Case, seen: list[list[Seen]]) -> None:
    n_saturations, n_eliminations, n_input = [0] * c.n_layers, [0] * c.n_layers, [0] * c.n_layers
    for position in seen:
        for layer in saturations(position):
            n_saturations[layer] += 1
        fall = largest_fall(position)
        if fall is not None:
            n_eliminations[fall] += 1
            n_input[fall] += is_input(c, position[fall])
    assert sum(n_saturations) > 0 and sum(n_eliminations) > 0
    telling(c, n_saturations[0] > 0 and n_saturations[1] > 0 and all(n_eliminations), "events are in every layer they can be in")
    want = [(i, n_saturations[i], n_eliminations[i], n_input[i], n_eliminations[i] - n_input[i], len(seen)) for i in range(c.n_layers)]
    assert ask(c, "geva2022_events()", "*") == want


def dominant(c: Case, s: Seen, word: int | None = None) -> list[tuple[float, int, float]]:
    """(length, neuron, score of the word, else of the candidate) of the 10 longest sub-updates."""
    values, row = c.reference.values(s.layer).numpy(), c.reference.embedding.numpy()[s.candidate if word is None else word]
    found = [(abs(s.m[i]) * np.linalg.norm(values[i]), i, s.m[i] * (row @ values[i])) for i in range(c.d_ffn)]
    return sorted(found, key=lambda update: (-update[0], update[1]))[:10]


def test_figure_3_of_2022(c: Case, seen: list[list[Seen]]) -> None:
    drawn: dict[tuple[int, int], list[int]] = {}
    for position, layer, neuron in c.published.rows("SELECT position_id, layer, neuron FROM sub_update WHERE selection = 'random'"):
        drawn.setdefault((position, layer), []).append(neuron)
    want = []
    for layer, ffns in at_layers(seen):
        scores: dict[str, list] = {"dominant": [], "random": []}
        for s in ffns:
            scores["dominant"].append([score for _, _, score in dominant(c, s)])
            word = c.reference.embedding[s.candidate]
            scores["random"].append([s.m[i] * float(word @ c.reference.values(layer)[i]) for i in drawn[s.position, layer]])
        for selection, found in scores.items():
            want.append((selection, layer, np.mean([np.mean(x) for x in found]), np.mean([max(x) for x in found]), np.mean([min(x) for x in found])))
    want.sort(key=lambda row: (row[1], row[0]))
    got = ask(c, "geva2022_fig3()", "selection, layer, mean_score, max_score, min_score")
    assert [row[0] for row in got] == [row[0] for row in want]
    same([row[1:] for row in got], [row[1:] for row in want])


def test_extreme_sub_updates_and_the_dominant_share(c: Case, seen: list[list[Seen]]) -> None:
    extremes, shares = [], []
    for layer, ffns in at_layers(seen):
        norms = np.linalg.norm(c.reference.values(layer).numpy(), axis=1)
        found = [(neuron, score) for s in ffns for _, neuron, score in dominant(c, s)]
        extreme = [(neuron, score) for neuron, score in found if abs(score) > THRESHOLD]
        promoting = sum(score > 0 for _, score in extreme)
        extremes.append((layer, len(found), len(extreme), promoting, len(extreme) - promoting, len({neuron for neuron, _ in extreme})))
        share = [sum(length for length, _, _ in dominant(c, s)) / sum(np.abs(s.m) * norms) for s in ffns]
        shares.append((layer, np.mean(share), min(share), max(share), 10 / c.d_ffn))
    telling(c, all(row[3] > 0 and row[4] > 0 and row[5] < c.d_ffn for row in extremes), "extreme ones promote and demote in every layer")
    assert ask(c, f"geva2022_extreme(threshold := {THRESHOLD})", "layer, n_sub_updates, n_extreme, n_promoting, n_demoting, n_values") == extremes
    same(ask(c, "geva2022_dominant_share()", "layer, mean_share, min_share, max_share, dominant_of_values"), shares)


def test_table_4_of_2022(c: Case, seen: list[list[Seen]]) -> None:
    events = [("saturation", position[layer], position[layer].final) for position in seen for layer in saturations(position)]
    falls = [position[fall] for position in seen if (fall := largest_fall(position)) is not None]
    events += [("elimination", s, s.candidate) for s in falls]
    events += [("elimination of another token", s, s.candidate) for s in falls if not is_input(c, s)]
    want = {}
    for name in ("saturation", "elimination", "elimination of another token"):
        scores = [[score for _, _, score in dominant(c, s, word)] for event, s, word in events if event == name]
        want[name] = (len(scores), *(np.mean([of(ten) for ten in scores]) for of in (np.mean, max, min)))
    got = ask(c, "promotion_vs_elimination()", "event, n_events, mean_score, max_score, min_score, selection")
    same([row[1:5] for row in got if row[5] == "dominant"], [want[row[0]] for row in got if row[5] == "dominant"])
    assert {row[0] for row in got} == set(want)


@dataclass(frozen=True)
class Cluster:
    """Extreme sub-updates whose value is in one cluster: (position, layer, neuron, sign of the coefficient, score of the candidate) of each,
    and the tokens they promote, with how often and how high."""

    updates: list[tuple[int, int, int, bool, float]]
    tokens: dict[int, tuple[int, int]]

    def share(self, wanted: set[int]) -> float:
        total = sum(n for n, _ in self.tokens.values())
        return sum(n for token, (n, _) in self.tokens.items() if token in wanted) / total


def extreme_clusters(c: Case, seen: list[list[Seen]], space: str) -> dict[int, Cluster]:
    cluster = {(layer, neuron): k for layer, neuron, k in c.published.rows(f"SELECT layer, neuron, cluster FROM value_cluster WHERE space = '{space}'")}
    found: dict[int, list[tuple[int, int, int, bool, float]]] = {}
    for _, ffns in at_layers(seen):
        for s in ffns:
            for _, neuron, score in dominant(c, s):
                if abs(score) > THRESHOLD:
                    found.setdefault(cluster[s.layer, neuron], []).append((s.position, s.layer, neuron, bool(s.m[neuron] >= 0), score))
    clusters = {}
    for k, updates in found.items():
        tokens: dict[int, tuple[int, int]] = {}
        for layer, neuron, is_positive in {update[1:4] for update in updates}:
            scores = value_scores(c, layer, neuron) * (1 if is_positive else -1)
            for rank, token in enumerate(np.argsort(-scores, kind="stable")[:10].tolist(), 1):
                n, best = tokens.get(token, (0, rank))
                tokens[token] = n + 1, min(best, rank)
        clusters[k] = Cluster(updates, tokens)
    return clusters


def by_frequency(c: Case) -> list[tuple[int, float]]:
    """Every token, the commonest first, and the share of the text that those before it make up."""
    counts = np.bincount(c.cut.token_ids, minlength=c.d_vocab)
    order = sorted(range(c.d_vocab), key=lambda token: (-counts[token], token))
    before = np.concatenate([[0], np.cumsum(counts[order])[:-1]]) / len(c.cut.token_ids)
    return list(zip(order, before.tolist(), strict=True))


def texts(c: Case, tokens: dict[int, tuple[int, int]]) -> list[str]:
    """The five that most values promote, higher ones first."""
    text = dict(c.published.rows("SELECT token_id, text FROM token"))
    return [text[token] for token in sorted(tokens, key=lambda token: (-tokens[token][0], tokens[token][1], token))[:5]]


@pytest.mark.parametrize("space", ["value", "logits"])
def test_extreme_clusters(c: Case, seen: list[list[Seen]], space: str) -> None:
    frequency = by_frequency(c)
    rank = {token: place for place, (token, _) in enumerate(frequency, 1)}
    common, unlikely = {token for token, before in frequency if before < 0.5}, {token for token, before in frequency if before >= 0.99}
    want = {}
    for k, cluster in extreme_clusters(c, seen, space).items():
        layers = [layer for _, layer, *_ in cluster.updates]
        n_positions, n_values = len({p for p, *_ in cluster.updates}), len({(layer, neuron) for _, layer, neuron, *_ in cluster.updates})
        sign = np.mean([np.sign(score) for *_, score in cluster.updates])
        mean_rank = sum(n * rank[token] for token, (n, _) in cluster.tokens.items()) / sum(n for n, _ in cluster.tokens.values())
        shares = cluster.share(common), cluster.share(unlikely)
        want[k] = (texts(c, cluster.tokens), (len(cluster.updates), n_positions, n_values, min(layers), max(layers), sign, mean_rank, *shares))
    telling(c, len(want) > 1, "several clusters hold extreme sub-updates")
    columns = "n_updates, n_positions, n_values, lowest_layer, highest_layer, mean_sign, mean_frequency_rank, common_share, unlikely_share"
    got = ask(c, f"geva2022_extreme_clusters('{space}', threshold := {THRESHOLD}, n := NULL)", f"cluster, tokens, {columns}")
    assert {row[0]: row[1] for row in got} == {k: tokens for k, (tokens, _) in want.items()}
    same([row[2:] for row in got], [want[row[0]][1] for row in got])


@pytest.mark.parametrize("space", ["value", "logits"])
def test_value_groups(c: Case, seen: list[list[Seen]], space: str) -> None:
    frequency = by_frequency(c)
    common, unlikely = {token for token, before in frequency if before < 0.5}, {token for token, before in frequency if before >= 0.99}
    groups: dict[str, list[tuple[int, Cluster]]] = {"unlikely, upper layers": [], "common, any layer": [], "other": []}
    for k, cluster in sorted(extreme_clusters(c, seen, space).items()):
        upper = all(layer >= c.n_layers / 2 for _, layer, *_ in cluster.updates)
        if upper and cluster.share(unlikely) >= 0.5:
            name = "unlikely, upper layers"
        elif cluster.share(common) >= 0.5:
            name = "common, any layer"
        else:
            name = "other"
        groups[name].append((k, cluster))
    n_all = sum(len(cluster.updates) for members in groups.values() for _, cluster in members)
    want = []
    for name, members in groups.items():
        updates = [update for _, cluster in members for update in cluster.updates]
        if not updates:
            continue
        layers = [layer for _, layer, *_ in updates]
        largest = max(members, key=lambda member: (len(member[1].updates), -member[0]))[1]
        counts = len(members), len({(layer, neuron) for _, layer, neuron, *_ in updates}), len(updates), len(updates) / n_all, min(layers), max(layers)
        means = (np.mean([cluster.share(wanted) for _, cluster in members]) for wanted in (unlikely, common))
        want.append((name, texts(c, largest.tokens), (*counts, np.mean([np.sign(score) for *_, score in updates]), *means)))
    columns = "n_clusters, n_values, n_updates, updates_share, lowest_layer, highest_layer, mean_sign, mean_unlikely_share, mean_common_share"
    got = ask(c, f"geva2022_value_groups('{space}', threshold := {THRESHOLD})", f"value_group, tokens, {columns}")
    assert [row[:2] for row in got] == [row[:2] for row in want]
    same([row[2:] for row in got], [numbers for *_, numbers in want])


def test_what_early_exit_learns_from(c: Case, seen: list[list[Seen]], tmp_path: Path) -> None:
    cluster = {(layer, neuron): k for layer, neuron, k in c.published.rows("SELECT layer, neuron, cluster FROM value_cluster WHERE space = 'value'")}
    # one process opens a file in one way only
    file = shutil.copy(c.published.rows("SELECT path FROM duckdb_databases() WHERE NOT internal")[0][0], tmp_path)
    with atlas.open(file) as a:
        examples = read_examples(a, "value")
    for i, position in enumerate(seen):
        assert examples.final[i] == position[0].final
        assert examples.before[i].tolist() == [s.candidate for s in position]
        assert examples.after[i].tolist() == [s.post.argmax() for s in position]
        assert examples.clusters[i].tolist() == [[cluster[s.layer, neuron] for _, neuron, _ in dominant(c, s)] for s in position]
        at = next(layer for layer in range(c.n_layers) if all(s.post.argmax() == s.final for s in position[layer:]))
        assert examples.saturation_layers[i] == at
        assert examples.is_event[i] == (position[at].candidate != position[at].final)
