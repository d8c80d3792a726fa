"""Traced positions as arrays, on which early exit is trained and tested."""

from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from atlas.frames import fetch
from schema.errors import AtlasError

if TYPE_CHECKING:
    from atlas.api import Atlas

CHOSEN = "INNER JOIN traced_position AS t ON x.position_id = t.position_id AND ($corpus IS NULL OR t.corpus_id = $corpus)"
EXAMPLES = f"""
SELECT x.position_id, p.sequence_id, x.final_token_id
FROM trace AS x {CHOSEN} INNER JOIN position AS p ON x.position_id = p.position_id ORDER BY x.position_id
"""
TOPS = f"SELECT x.top_token_id FROM logit_lens AS x {CHOSEN} WHERE x.site = $site ORDER BY x.position_id, x.layer"
CLUSTERS = f"""
SELECT c.cluster
FROM sub_update AS x {CHOSEN} INNER JOIN value_cluster AS c ON x.layer = c.layer AND x.neuron = c.neuron AND c.space = $space
WHERE x.selection = 'dominant' ORDER BY x.position_id, x.layer, x.rank
"""
STATES = f"SELECT x.vector FROM residual_state AS x {CHOSEN} WHERE x.site = 'resid_post' ORDER BY x.position_id, x.layer"


class Examples(NamedTuple):
    """Traced positions as arrays; n examples, L layers, k dominant sub-updates, d = d_model.

    sequence: ids of sequences, [n]. final: tokens of the final prediction, [n]. before, after: top tokens at resid_mid and resid_post, [n, L].
    clusters: clusters of the dominant values, [n, L, k]. states: resid_post, [n, L, d].
    """

    sequence: np.ndarray
    final: np.ndarray
    before: np.ndarray
    after: np.ndarray
    clusters: np.ndarray
    states: np.ndarray

    @property
    def n_layers(self) -> int:
        return self.after.shape[1]

    @property
    def saturation_layers(self) -> np.ndarray:
        """First layer from which on the final prediction stays on top at resid_post, [n]."""
        stays = np.logical_and.accumulate((self.after == self.final[:, None])[:, ::-1], axis=1)
        return self.n_layers - stays.sum(1)

    @property
    def is_event(self) -> np.ndarray:
        """Whether an FFN, not attention, brought the final prediction to the top at its saturation layer, [n].

        The last layer counts here, so that the rule knows when to wait.
        """
        at = self.saturation_layers[:, None]
        return np.take_along_axis(self.before, at, 1)[:, 0] != self.final

    def select_rows(self, rows: np.ndarray) -> Self:
        return type(self)(*(column[rows] for column in self))


def read_examples(a: "Atlas", space: str, corpus: int | None = None) -> Examples:
    """Read every traced position of a corpus (None: all), with its dominant sub-updates as clusters of the space.

    Raises AtlasError if there are no traced positions or no clusters.
    """
    table = fetch(a.con, EXAMPLES, {"corpus": corpus})
    if table.is_empty():
        raise AtlasError("early exit needs traced positions, and this atlas has none: ingest with --trace")
    n = table.height
    clusters = fetch(a.con, CLUSTERS, {"space": space, "corpus": corpus})["cluster"].to_numpy()
    if not len(clusters):
        raise AtlasError(f"early exit needs clusters of the values in the space '{space}', and this atlas has none: ingest with --paper")
    before, after = (fetch(a.con, TOPS, {"site": site, "corpus": corpus})["top_token_id"].to_numpy().reshape(n, -1) for site in ("resid_mid", "resid_post"))
    n_layers = after.shape[1]
    states = fetch(a.con, STATES, {"corpus": corpus})["vector"].to_numpy().reshape(n, n_layers, -1)
    return Examples(table["sequence_id"].to_numpy(), table["final_token_id"].to_numpy(), before, after, clusters.reshape(n, n_layers, -1), states)
