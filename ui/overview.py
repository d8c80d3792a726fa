"""Content of the overview, in words and numbers."""

import re

import polars as pl

from atlas.inventory import Status

CORPUS_COLUMNS = [
    "corpus_id",
    "name",
    "split",
    "n_documents",
    "n_positions",
    "n_swept",
    "n_traced",
    "triggers_per_tail",
    "skip_first",
    "distinct_tokens",
    "context",
    "revision",
]

MEASURES = {
    "active_share": "Coefficients over 0 (share)",
    "coefficient_rms": "Size of coefficients (root mean square)",
    "mean_value_norm": "Length of values (mean ‖v‖)",
    "mean_key_value_cosine": "Cosine of key and value (mean)",
    "final_on_top_before": "Final prediction leads at resid_mid (share)",
    "agreement": "FFN agrees with the stream (share)",
    "dominant_share": "10 dominant in the summed norm (share)",
    "n_saturations": "Saturation events",
    "n_eliminations": "Elimination events",
    "n_other_eliminations": "Elimination events, not of the input token",
}
"""Column of layer_summary → title of its panel, with the unit."""


def available_measures(layers: pl.DataFrame) -> dict[str, str]:
    """Select the measures that this atlas has."""
    return {column: title for column, title in MEASURES.items() if layers[column].null_count() < layers.height}


def facts(status: Status) -> dict[str, str]:
    """List facts of the model and the extent of the atlas: name → value with its unit."""
    m = status.model.row(0, named=True)
    read, traced = (int(status.corpora[column].sum()) for column in ("n_swept", "n_traced"))
    return {
        "Layers": f"{m['n_layers']}",
        "Neurons a layer": f"{m['d_ffn']:,}",
        "d_model": f"{m['d_model']:,}",
        "FFN": f"{sanitise_name(m['activation'])}{', gated' if m['is_gated'] else ''}",
        "Vocabulary": f"{m['d_vocab']:,} tokens",
        "Positions swept": f"{read:,}",
        "Positions traced": f"{traced:,}",
        "File": f"{status.bytes / 1e6:,.0f} MB",
    }


def sanitise_name(name: str) -> str:
    """Replace all characters except letters, digits and underscores: facts are Markdown, and names of activations need no others."""
    return re.sub(r"[^A-Za-z0-9_]", "?", name[:40])


def title(status: Status) -> str:
    """Choose the title of the overview, by whether the atlas has a model. Plain characters only: titles are Markdown."""
    return "Empty atlas" if status.model.is_empty() else "What this atlas holds"


def model_line(status: Status) -> str:
    """Describe the model in one line."""
    m = status.model.row(0, named=True)
    return f"{m['name']} @ {m['revision']} ({m['model_type']}, {m['dtype']})"
