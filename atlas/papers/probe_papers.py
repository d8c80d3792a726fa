"""Items of papers that probe states for labels and parse trees, and attention for relations.

The papers: Hewitt and Liang 2019, Hewitt and Manning 2019, Voita and Titov 2020, Clark et al. 2019.
"""

from functools import partial

import altair as alt
import polars as pl

from atlas import charts
from atlas.address import Head
from atlas.papers.items import Item, Paper
from atlas.papers.words import describe_count, percent

STATES = "Layer 0 resid_pre is the embedding; every other row is the state that leaves its layer."

SPLIT = "Probes learn from some documents and are scored on others."


MOST = 12
"""Most relations in a figure."""


def last_run(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.filter(pl.col("run_id") == pl.col("run_id").max())


def best_place(frame: pl.DataFrame, column: str = "uuas") -> pl.DataFrame:
    """Select the rows of the layer and site with the largest value of `column` in the last run."""
    rows = last_run(frame)
    best = rows.sort(column, descending=True, maintain_order=True).row(0, named=True)
    return rows.filter((pl.col("layer") == best["layer"]) & (pl.col("site") == best["site"])).sort("rank")


def draw_over_blocks(frame: pl.DataFrame, names: dict[str, str], title: str, format: str) -> alt.LayerChart:
    """Draw a line for each column of `names`, over the number of blocks that the states have passed through."""
    blocks = last_run(frame).with_columns(blocks=pl.when(pl.col("site") == "resid_pre").then(0).otherwise(pl.col("layer") + 1))
    x = alt.X("blocks:Q", title="Blocks read", axis=alt.Axis(tickMinStep=1, grid=False))
    return charts.lines(
        charts.unpivot_columns(blocks, "blocks", names).drop_nulls(), x=x, y="value", y_title=title, series="series", order=list(names.values()), format=format
    )


def draw_ranks(frame: pl.DataFrame) -> alt.LayerChart:
    """Draw UUAS over the rank, which doubles from tick to tick."""
    embedding = last_run(frame).filter(site="resid_pre")
    shown = {"best state": (best_place(frame), "uuas"), "embedding": (embedding, "uuas"), "untrained": (best_place(frame, "untrained_uuas"), "untrained_uuas")}
    rows = pl.concat([found.select("rank", series=pl.lit(name), value=pl.col(column)) for name, (found, column) in shown.items()])
    values = rows["rank"].unique().sort().to_list()
    scale = alt.Scale(type="log", base=2, domain=[min(values), max(2 * min(values), *values)])
    x = alt.X("rank:Q", title="Rank of the probe", scale=scale, axis=alt.Axis(values=values, format="d", grid=False))
    return charts.lines(rows, x=x, y="value", y_title="Edges found (UUAS)", series="series", order=list(shown), format=".0%")


def draw_relations(frame: pl.DataFrame) -> alt.Chart:
    """Draw by how much the best head of each of the commonest relations is above the best offset."""
    rows = last_run(frame).head(MOST).with_columns(named=pl.format("{}, at the {}", "relation", "looks_at")).sort("gain", descending=True, maintain_order=True)
    return charts.ranked_bars(rows, y="named", x="gain", x_title="Share of pairs above the best offset", format=".0%")


def place(row: dict) -> str:
    return f"{row['site']} of layer {row['layer']}"


def selectivity(frame: pl.DataFrame) -> str:
    """Describe the embedding, the most accurate state and the most selective one, and the accuracy of the type alone."""
    rows = last_run(frame)
    accurate, selective = (rows.sort(column, descending=True, maintain_order=True).row(0, named=True) for column in ("accuracy", "selectivity"))
    named = {"embedding": rows.row(0, named=True), place(accurate): accurate, place(selective): selective}
    found = [
        f"{name} {percent(row['accuracy'])}, control {percent(row['control_accuracy'])}, selectivity {100 * row['selectivity']:.1f}"
        for name, row in named.items()
    ]
    return f"{'; '.join(found)}; by the type alone {percent(accurate['type_accuracy'])}"


def codes(frame: pl.DataFrame) -> str:
    """Describe the embedding, the state with the shortest code of the labels, and the last state."""
    rows = last_run(frame)
    shortest = rows.sort("kilobits", maintain_order=True).row(0, named=True)
    named = {"embedding": rows.row(0, named=True), place(shortest): shortest, place(rows.row(-1, named=True)): rows.row(-1, named=True)}
    found = [
        f"{name} {row['kilobits']:.1f} kbits (accuracy {percent(row['accuracy'])}), control {row['control_kilobits']:.1f} ({percent(row['control_accuracy'])})"
        for name, row in named.items()
    ]
    return "; ".join(found)


def trees(frame: pl.DataFrame) -> str:
    """Describe the UUAS of a chain, the embedding, the best untrained state and the best state, and how often the best state finds the root."""
    rows = last_run(frame)
    best = rows.sort("uuas", descending=True, maintain_order=True).row(0, named=True)
    first = rows.row(0, named=True)
    ends = "" if best["uuas_low"] is None else f" ({percent(best['uuas_low'])} to {percent(best['uuas_high'])})"
    return (
        f"UUAS: a chain of neighbours {percent(first['chain_uuas'])}, embedding {percent(first['uuas'])}, untrained {percent(rows['untrained_uuas'].max())} at "  # type: ignore[arg-type]
        f"best, {place(best)} {percent(best['uuas'])}{ends}; its root {percent(best['root_accuracy'])}"
    )


def by_rank(frame: pl.DataFrame) -> str:
    """Describe the UUAS at each rank, for the layer and site with the largest UUAS at any rank."""
    rows = best_place(frame)
    return f"{place(rows.row(0, named=True))}: {', '.join(f'rank {rank} {percent(uuas)}' for rank, uuas in rows.select('rank', 'uuas').iter_rows())}"


def relations(frame: pl.DataFrame) -> str:
    """Describe the three relations that a head follows furthest above the best offset, and all relations together."""
    rows = last_run(frame)
    every, one = rows.filter(relation="any"), rows.filter(pl.col("relation") != "any")
    shown = [*one.sort("gain", descending=True, maintain_order=True).head(3).iter_rows(named=True), *every.iter_rows(named=True)]
    found = [
        f"{'all relations' if row['relation'] == 'any' else row['relation']}, at the {row['looks_at']}: {Head(row['layer'], row['head'])} "
        f"{percent(row['accuracy'])} (offset {percent(row['offset_accuracy'])})"
        for row in shown
    ]
    return "; ".join(found)


def words(frame: pl.DataFrame) -> str:
    of = {"n_train": "words to learn from", "n_test": "words of the test", "n_classes": "labels"}
    return ", ".join(describe_count(frame, column, unit) for column, unit in of.items())


def sentences(frame: pl.DataFrame) -> str:
    of = {"n_train": "sentences to learn from", "n_test": "sentences of the test", "n_edges": "edges"}
    return ", ".join(describe_count(frame, column, unit) for column, unit in of.items())


TABLE2 = Item(
    "hewitt_liang2019_table2",
    "Table 2",
    question="probe_layers",
    fixed={"task": "pos"},
    chart=partial(
        draw_over_blocks, names={"accuracy": "labels", "control_accuracy": "control", "untrained_accuracy": "untrained"}, title="Accuracy", format=".0%"
    ),
    caption=lambda f: (
        "Accuracy of linear probes for parts of speech; of the same probes where each type of word has one label, drawn at random (control); the difference "
        f"(selectivity); and from the same architecture with random weights. {SPLIT} {STATES}"
    ),
    n=words,
    if_empty="no probe of parts of speech: `atlas ingest {path} --model … --corpus … --words … --probe pos`",
    columns={
        "layer": "layer", "site": "state", "accuracy": "accuracy", "accuracy_low": "from", "accuracy_high": "to", "n_clusters": "documents",
        "control_accuracy": "control", "selectivity": "selectivity", "unseen_accuracy": "unseen types", "untrained_accuracy": "untrained",
        "type_accuracy": "type alone", "rank": "rank", "n_test": "n",
    },
    headline="part of speech, linear: ELMo's layer 1 97.2, control 71.2, selectivity 26.0; layer 2 96.6, selectivity 31.4",
    ours=selectivity,
)  # fmt: skip

CODES = Item(
    "voita_titov2020_table1",
    "Table 1",
    question="probe_layers",
    fixed={"task": "pos"},
    chart=partial(draw_over_blocks, names={"kilobits": "labels", "control_kilobits": "control"}, title="Code (kilobits)", format="~f"),
    caption=lambda f: (
        "Bits that it takes to say the parts of speech of the words to learn from, given their states, by probes that have seen the words before (online "
        f"code), beside the same of labels drawn for each type of word. Less is easier to read. {STATES}"
    ),
    n=words,
    if_empty="no probe of parts of speech: `atlas ingest {path} --model … --corpus … --words … --probe pos`",
    columns={
        "layer": "layer", "site": "state", "kilobits": "kbits", "compression": "compression", "accuracy": "accuracy", "control_kilobits": "kbits, control",
        "control_accuracy": "accuracy, control", "rank": "rank", "n_train": "n",
    },
    headline="ELMo's layers 0, 1, 2: 173, 96, 115 kbits, control 302, 515, 717; at layer 0 the control is more accurate (96.3 against 93.7), its code longer",
    ours=codes,
)  # fmt: skip

TREES = Item(
    "hewitt_manning2019_table1",
    "Table 1",
    question="parse_layers",
    chart=partial(
        draw_over_blocks, names={"uuas": "model", "untrained_uuas": "untrained", "chain_uuas": "chain"}, title="Edges found (UUAS)", format=".0%"
    ),
    caption=lambda f: (
        "Share of the edges of parse trees that the minimum spanning tree of mapped states has (UUAS), beside that of a chain of neighbours, which needs no "
        f"state, and of an untrained model. Spearman: rank correlation of distances and of depths, over sentences of 5 to 50 words. {SPLIT} {STATES}"
    ),
    n=sentences,
    exclusions="punctuation in UUAS and root; sentences that are not read whole",
    columns={
        "layer": "layer", "site": "state", "rank": "rank", "uuas": "UUAS", "uuas_low": "from", "uuas_high": "to", "n_clusters": "documents",
        "chain_uuas": "chain", "untrained_uuas": "untrained", "spearman": "Spearman", "root_accuracy": "root", "depth_spearman": "Spearman, depth",
        "n_edges": "n",
    },
    headline="UUAS: a chain of neighbours 48.9, random BiLSTM 59.8, ELMo's layer 1 77.0, BERT-large's layer 15 82.5",
    ours=trees,
)  # fmt: skip

RANKS = Item(
    "hewitt_manning2019_ranks",
    "Rank of the probe",
    question="parse_layers",
    fixed={"rank": 0},
    chart=draw_ranks,
    caption=lambda f: (
        "The same share by the number of dimensions that states are mapped to: of the state that is best at any rank, of the embedding, and of the best "
        f"state of an untrained model. {SPLIT}"
    ),
    n=sentences,
    exclusions="punctuation; sentences that are not read whole",
    columns={
        "layer": "layer", "site": "state", "rank": "rank", "uuas": "UUAS", "uuas_low": "from", "uuas_high": "to", "n_clusters": "documents",
        "untrained_uuas": "untrained", "spearman": "Spearman", "n_edges": "n",
    },
    headline="64 dimensions suffice: more find no more of the trees",
    ours=by_rank,
)  # fmt: skip

HEADS = Item(
    "clark2019_table1",
    "Table 1",
    question="head_relations",
    chart=draw_relations,
    caption=lambda f: (
        "Of each relation the head that looks back most often from the later of the two words at the other, more than at any word before it in the sentence, "
        "beside the word that lies before it as far as is commonest. Heads and distances are chosen by some documents and scored on others. A causal model "
        "looks back alone, so that relations are apart by which word comes first."
    ),
    n=lambda f: describe_count(f.filter(relation="any"), "n_test", "pairs of words of the test at most in a row"),
    exclusions="relations with fewer than 20 pairs in the test; words at index 0 and words that no token ends with",
    if_empty="no relation has 20 pairs of words in the test",
    columns={
        "relation": "relation", "looks_at": "looks at", "layer": "layer", "head": "head", "accuracy": "accuracy", "offset_accuracy": "best offset",
        "offset_words": "words before", "gain": "gain", "chosen_accuracy": "where chosen", "n_test": "n",
    },
    headline="heads of BERT: det 94.3 (best offset 51.7), dobj 86.8 (40.0), nsubj 58.5; all relations 34.5 (26.3)",
    ours=relations,
)  # fmt: skip

HEWITT_LIANG2019 = Paper(
    name="hewitt_liang2019",
    citation="Hewitt and Liang 2019, Designing and Interpreting Probes with Control Tasks",
    authors="Hewitt and Liang 2019",
    model="ELMo",
    model_note="Penn Treebank, labels by people.",
    items=(TABLE2,),
    counts_from_one=False,
)

VOITA_TITOV2020 = Paper(
    name="voita_titov2020",
    citation="Voita and Titov 2020, Information-Theoretic Probing with Minimum Description Length",
    authors="Voita and Titov 2020",
    model="ELMo",
    model_note="Penn Treebank, labels by people.",
    items=(CODES,),
    counts_from_one=False,
)

HEWITT_MANNING2019 = Paper(
    name="hewitt_manning2019",
    citation="Hewitt and Manning 2019, A Structural Probe for Finding Syntax in Word Representations",
    authors="Hewitt and Manning 2019",
    model="ELMo and BERT",
    model_note="Penn Treebank, trees by people; both read the words that follow, too.",
    items=(TREES, RANKS),
    counts_from_one=False,
)

CLARK2019 = Paper(
    name="clark2019",
    citation="Clark et al. 2019, What Does BERT Look At? An Analysis of BERT's Attention",
    authors="Clark et al. 2019",
    model="BERT-base",
    model_note="12 layers of 12 heads; Wall Street Journal, trees by people; it reads the words that follow, too.",
    items=(HEADS,),
    counts_from_one=False,
)
