"""What was recorded of predictions beside brute force: every column of the five tables."""

from itertools import product

import numpy as np
import polars as pl
import torch

from ingest.recorders.attribution import N_NEURONS
from ingest.recorders.sources import N_SOURCES
from tests.ingest.parts_oracle import Oracle, Taken


def close(got: object, want: object, of: float = 1.0, tolerance: float = 3e-5) -> None:
    """of: the size that rounding is measured against."""
    np.testing.assert_allclose(np.asarray(got, np.float64), np.asarray(want, np.float64), atol=tolerance * of, rtol=tolerance)


class Checked:
    """What was recorded of a model beside its oracle. places: of each position its sequence, its index and the token that follows, -1 for none."""

    def __init__(self, oracle: Oracle, tables: dict[str, pl.DataFrame], places: dict[int, tuple[Taken, int, int]], run_id: int) -> None:
        self.oracle, self.tables, self.places, self.run_id = oracle, tables, places, run_id

    def at(self, position: int) -> tuple[Taken, int, int, int]:
        """Its sequence, its index, the predicted and the following token (-1 for none). Of equal logits the one that was recorded."""
        taken, index, following = self.places[position]
        final = self.rows("attribution", position).filter(pl.col("target") == "final")["token_id"].item()
        assert float(taken.logits[index, final]) >= float(taken.logits[index].max()) - 1e-5
        return taken, index, final, following

    def rows(self, table: str, position: int) -> pl.DataFrame:
        return self.tables[table].filter(pl.col("position_id") == position)

    def scale(self, position: int) -> torch.Tensor:
        taken, index, *_ = self.at(position)
        return self.oracle.scale(taken.last[index])


def check_parts(c: Checked) -> None:
    for position in c.places:
        taken, index, final, following = c.at(position)
        found = {(kind, layer, head): rest for _, kind, layer, head, *rest in c.rows("contribution", position).iter_rows()}
        assert found.keys() == {*taken.parts, ("constant", None, None)}
        size = float(taken.logits[index].abs().max())
        for key, z in taken.parts.items():
            got, logits = found[key], c.oracle.read(z[index], c.scale(position))
            close(got[:1] + got[2:3], [float(logits[final]), float(logits.mean())], size)
            assert (got[1] is None) == (following < 0)
            if following >= 0:
                close(got[1], float(logits[following]), size)
            close(got[3], float(z[index].norm()), float(z[index].norm()))
            if key in taken.befores:
                x = taken.befores[key][index]
                close(got[4], float(-(z[index] @ x) / (x @ x)), float(z[index].norm() / x.norm()) + 1e-3)
            else:
                assert got[4] is None
        constant = c.oracle.constant()
        close([found["constant", None, None][i] for i in (0, 2)], [float(constant[final]), float(constant.mean())])
        assert found["constant", None, None][3:] == [None, None]


def check_totals(c: Checked) -> None:
    cap = getattr(c.oracle.config, "final_logit_softcapping", None)
    for position in c.places:
        taken, index, final, following = c.at(position)
        rows = {row["target"]: row for row in c.rows("attribution", position).iter_rows(named=True)}
        assert rows.keys() == ({"final", "next"} if following >= 0 else {"final"})
        assert rows["final"]["run_id"] == c.run_id
        parts = c.rows("contribution", position)
        neurons = torch.cat([c.oracle.read(of_layer[index], c.scale(position)) for of_layer in taken.neurons])
        for target, token in (("final", final), ("next", following)):
            if token < 0:
                continue
            row, capped = rows[target], float(taken.logits[index, token])
            own = float((c.oracle.read(taken.last[index], c.scale(position)) + c.oracle.constant())[token])
            assert row["token_id"] == token
            close([row["logit"], row["parts_sum"]], [own, own], max(1.0, abs(own)))
            assert abs(row["residual"]) <= 1e-5 * max(1, abs(own))
            close(row["residual"], row["logit"] - row["parts_sum"], tolerance=1e-5)
            close([row["capped_logit"], row["slope"]], [capped, 1 - (capped / cap) ** 2 if cap else 1.0], max(1.0, abs(own)), 1e-4)
            close(row["scale"], float(c.scale(position)))
            close(parts[f"{target}_logit"].cast(pl.Float64).sum(), row["parts_sum"], max(1.0, abs(own)), 1e-5)
            close(parts["mean_logit"].cast(pl.Float64).sum(), row["mean_logit"], max(1.0, abs(own)), 1e-5)
            of_token = neurons[:, token]
            close(
                [row["neurons_up"], row["neurons_down"]], [float(of_token.clamp(min=0).sum()), float(of_token.clamp(max=0).sum())], float(of_token.abs().sum())
            )


def check_neurons(c: Checked) -> None:
    for position in c.places:
        taken, index, final, following = c.at(position)
        scores = torch.stack([c.oracle.read(of_layer[index], c.scale(position)) for of_layer in taken.neurons])
        rows, k = c.rows("neuron_contribution", position), min(N_NEURONS, scores[..., 0].numel())
        assert rows["rank"].to_list() == list(range(1, k + 1))
        size = float(scores[..., final].abs().max())
        places = rows["layer"].to_list(), rows["neuron"].to_list()
        assert len(set(zip(*places, strict=True))) == k
        close(rows["final_logit"], scores[..., final][places], size)
        close(rows["final_logit"].abs(), scores[..., final].abs().flatten().sort(descending=True).values[:k], size)
        if following >= 0:
            close(rows["next_logit"], scores[..., following][places], float(scores.abs().max()))
        else:
            assert rows["next_logit"].null_count() == k


def check_sources(c: Checked) -> None:
    n_layers, n_heads = len(c.oracle.blocks), c.oracle.config.num_attention_heads
    for position, layer, head in product(c.places, range(n_layers), range(n_heads)):
        taken, index, final, _ = c.at(position)
        row = c.rows("attention", position).filter((pl.col("layer") == layer) & (pl.col("head") == head))
        total = c.rows("head_activity", position).filter((pl.col("layer") == layer) & (pl.col("head") == head)).to_dicts()[0]
        weights, vectors = taken.weights[layer][index, head], taken.moved_vectors[layer][index, head]
        moved, logits = vectors.norm(dim=-1), c.oracle.read(vectors, c.scale(position))[:, final]
        seen = int((weights > 0).sum())
        size = float(moved.sum())
        order = row["source_index"].to_list()
        assert row["rank"].to_list() == list(range(1, min(N_SOURCES, seen) + 1))
        assert len(set(order)) == len(order)
        assert bool((weights[order] > 0).all())
        close(row["weight"], weights[order])
        close(row["moved"], moved[order], size)
        close(row["moved"], moved.sort(descending=True).values[: len(row)], size)
        close(row["value_norm"], taken.values[layer][:, head].norm(dim=-1)[order], float(taken.values[layer].norm(dim=-1).max()))
        close(row["final_logit"], logits[order], max(1.0, float(logits.abs().sum())))
        of_head = float(c.oracle.read(taken.parts["head", layer, head][index], c.scale(position))[final])
        previous = float(weights[index - 1]) if index else 0.0
        want = {
            "entropy": float(torch.special.entr(weights).sum()), "first_weight": float(weights[0]), "self_weight": float(weights[index]),
            "previous_weight": previous, "kept_weight": float(weights[order].sum()),
        }  # fmt: skip
        close([total[name] for name in want], list(want.values()))
        close([total["moved"], total["kept_moved"]], [size, float(moved[order].sum())], size)
        close(total["final_logit"], of_head, max(1.0, float(logits.abs().sum())))


def check_all(c: Checked) -> None:
    check_parts(c)
    check_totals(c)
    check_neurons(c)
    check_sources(c)
