"""The items of Elhage et al. 2021, in the paper's order."""

import polars as pl

from atlas.papers import elhage2021_charts as charts
from atlas.papers.items import Item, Paper
from atlas.papers.words import number

COPIES = 0.5
"""Ratio above which a head is counted as copying."""

INDUCES = 0.3
"""Mean weight above which a head is counted as an induction head."""


def copying_heads(frame: pl.DataFrame) -> str:
    """'124 of 270 (uncentred); …': heads with a ratio above one half."""
    found = []
    for embedding, name in charts.EMBEDDINGS.items():
        rows = frame.filter(embedding=embedding)
        found.append(f"{rows.filter(pl.col('lower_edge') >= COPIES - 1e-9)['n_heads'].sum()} ({name})")
    return f"of {n_heads(frame)}: {', '.join(found)} have a ratio of {COPIES} or more"


def n_heads(frame: pl.DataFrame) -> str:
    return f"{frame.filter(embedding='effective')['n_heads'].sum():,} heads"


def strongest(frame: pl.DataFrame) -> str:
    """The pair with the largest K-composition, and by how much it is above chance."""
    row = frame.filter(kind="k").sort("max_excess", descending=True, maintain_order=True).row(0, named=True)
    return f"largest K-composition: L{row['from_layer']}H{row['from_head']} into L{row['layer']}H{row['head']}, {row['max_excess']:.3f} above chance"


def induction_heads(frame: pl.DataFrame) -> str:
    """How many heads are induction heads on the probe, and what their circuits are."""
    found = frame.filter(pl.col("induction") > INDUCES)
    if found.is_empty():
        return f"no head looks there with more than {INDUCES} of its weight"
    both = found.filter((pl.col("copying_effective") > 0) & (pl.col("matching") > 0))
    first = found.row(0, named=True)
    read = f", whose keys read L{first['from_layer']}H{first['from_head']} most" if first["from_layer"] is not None else ""
    return (
        f"{found.height} heads with more than {INDUCES} of their weight there, {both.height} of them with both ratios above 0; "
        f"first L{first['layer']}H{first['head']} ({number(first['induction'], '.2f')}){read}"
    )


COPYING = Item(
    "elhage2021_copying",
    "One-layer models: copying",
    needs=("circuit",),
    chart=charts.copying,
    caption=lambda f: (
        "Eigenvalues of every head's OV circuit, from the tokens that it reads to the logits that it writes: their sum over the sum of their moduli. "
        "1: the head raises what it looks at. Uncentred is the paper's own; centred leaves out what does not depend on the token; the third takes tokens as "
        "the first block leaves them, from which heads of later layers read."
    ),
    n=n_heads,
    columns={"embedding": "token", "lower_edge": "ratio from", "n_heads": "heads", "share": "share"},
    headline="10 of the 12 heads of a one-layer model copy; eigenvectors are not orthogonal, so it is evidence and no proof",
    ours=copying_heads,
)

COMPOSITION = Item(
    "elhage2021_composition",
    "Two-layer models: composition",
    needs=("circuit",),
    chart=charts.composition,
    caption=lambda f: (
        "How much heads read earlier heads by their keys, queries and values: Frobenius norm of the product over the product of norms, less what random "
        "matrices give, as the erratum of 2023 corrects it; the largest into each layer."
    ),
    n=lambda f: f"{f['n_pairs'].sum():,} pairs of heads, each kind counted",
    columns={
        "kind": "kind", "layer": "layer", "from_layer": "reads", "n_pairs": "pairs", "median_excess": "median", "max_excess": "largest", "head": "head",
        "from_head": "of head",
    },
    headline="heads of the second layer read one head of the first by their keys, a previous-token head; there is little else",
    ours=strongest,
)  # fmt: skip

INDUCTION = Item(
    "elhage2021_induction",
    "Two-layer models: induction heads",
    needs=("circuit", "head_probe"),
    chart=charts.induction,
    caption=lambda f: (
        "Every head that reads an earlier one by its keys clearly above chance: whether its OV circuit copies, whether its QK circuit through that head "
        "looks for the present token, and the weight that it puts, on random tokens read twice, on what followed the token's earlier copies."
    ),
    n=lambda f: f"{f.drop_nulls('matching').height:,} of {f.height:,} heads",
    exclusions="in the figure heads without an earlier one to read, and those that read none clearly above chance",
    columns={
        "layer": "layer", "head": "head", "induction": "induction", "induction_uniform": "uniform", "copying_effective": "copying", "matching": "matching",
        "from_layer": "reads layer", "from_head": "its head", "excess": "above chance", "from_previous": "of which previous",
    },
    headline="induction heads are those with positive eigenvalues in both circuits, and stand in a corner by themselves",
    ours=induction_heads,
)  # fmt: skip

ELHAGE2021 = Paper(
    name="elhage2021",
    citation="Elhage et al. 2021, A Mathematical Framework for Transformer Circuits",
    authors="Elhage et al. 2021",
    model="attention-only models",
    model_note="One and two layers of 12 heads of 64, context 2,048.",
    items=(COPYING, COMPOSITION, INDUCTION),
)
