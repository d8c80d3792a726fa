"""The items of nearest-neighbour language models (Khandelwal et al. 2020), in the paper's order.

The paper's table 5, which compares sites that keys may be taken from, is left out: all keys here are of one site (schema/key_files.py).
"""

from dataclasses import replace
from functools import partial

import altair as alt
import polars as pl

from atlas import charts
from atlas.papers.items import Item, Paper
from atlas.papers.retrieved import MIXTURES, mixtures, read_retrieval_rows
from atlas.papers.words import describe_count, number
from atlas.questions import question

QUERIES = {"perplexity": "all queries", "perplexity_others": "without near-copies"}

WEIGHT_AXIS = alt.X("weight:Q", title="Share λ in the mixture", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=5, grid=False))

COPY = "A near-copy is a query whose text the store has nearly word for word."


def perplexity(value: float | None) -> str:
    return number(value, ".1f")


def both_splits(frame: pl.DataFrame) -> str:
    """Describe both splits without and with neighbours: 'tune 41.9 → 40.7 (without near-copies …); test …'."""
    found = [
        f"{row['part']} {perplexity(row['perplexity'])} → {perplexity(row['perplexity_knn'])} "
        f"(without near-copies {perplexity(row['perplexity_others'])} → {perplexity(row['perplexity_knn_others'])})"
        for row in frame.rows(named=True)
    ]
    first = frame.row(0, named=True)
    return f"{'; '.join(found)}; λ {first['weight']:.2f}, k {first['k']:,}, T {first['temperature']:.3g}"


def of_store(frame: pl.DataFrame) -> str:
    """Describe the store: its number of entries, whether the model was trained on its text, and how often the test queries had been scored before."""
    row = frame.row(0, named=True)
    trained = {True: ", text that the model was trained on", False: ", text that the model was not trained on", None: ""}[row["is_training_text"]]
    seen = f" The test queries had been scored {row['n_earlier_tests']} times before against these entries." if row["n_earlier_tests"] else ""
    return f"{row['n_entries']:,} entries{trained}.{seen}"


def by_k(frame: pl.DataFrame) -> str:
    return ", ".join(f"k {k:,}: {perplexity(value)}" for k, value in frame.select("k", "perplexity").iter_rows())


def best_weight(frame: pl.DataFrame) -> str:
    """Describe the best λ for all queries and for those that are not near-copies, each with its perplexity, and the perplexity of the model alone."""
    best = {name: frame.drop_nulls(name).sort(name, "weight") for name in QUERIES}
    found = [f"{QUERIES[name]} {rows['weight'][0]:.2f} ({perplexity(rows[name][0])})" for name, rows in best.items() if rows.height]
    return f"best λ of {', '.join(found)}; the model alone {perplexity(frame.filter(weight=0.0)['perplexity'].item())}"


def of_mixtures(frame: pl.DataFrame) -> str:
    """Describe each mixture: its perplexity over the test queries, with the λ that is best for the tune queries."""
    rows = frame.filter("is_chosen").select("mixture", "test_perplexity", "weight").iter_rows()
    return f"test: {', '.join(f'{mixture} {perplexity(value)} (λ {weight:.2f})' for mixture, value, weight in rows)}"


def queries(frame: pl.DataFrame) -> str:
    return f"{describe_count(frame, 'n_queries', 'tune queries')}, {describe_count(frame, 'n_others', 'of them no near-copies')}"


def draw_neighbours(frame: pl.DataFrame) -> alt.LayerChart:
    """Draw perplexity over k, which doubles from tick to tick."""
    ks = frame["k"].to_list()
    axis = alt.Axis(values=ks, format="d", grid=False)
    return draw_query_lines(frame, "k", alt.X("k:Q", title="Neighbours k", scale=alt.Scale(type="log", base=2, domain=[min(ks), max(ks)]), axis=axis))


def draw_query_lines(frame: pl.DataFrame, over: str, x: alt.X) -> alt.LayerChart:
    """Draw a line for all queries, and one for those that are not near-copies."""
    long = frame.select(over, *QUERIES).rename(QUERIES).unpivot(index=over, variable_name="queries", value_name="perplexity")
    return draw_perplexities(long, "queries", list(QUERIES.values()), x)


def draw_ngrams(frame: pl.DataFrame) -> alt.LayerChart:
    """Draw the perplexity of each mixture over λ."""
    return draw_perplexities(frame.sort("weight"), "mixture", ["3-gram", "5-gram", "neighbours"], WEIGHT_AXIS)


def draw_perplexities(frame: pl.DataFrame, series: str, order: list[str], x: alt.X) -> alt.LayerChart:
    finite = frame.filter(pl.col("perplexity").is_finite())
    return charts.lines(finite, x=x, y="perplexity", y_title="Perplexity", series=series, order=order, is_from_zero=False)


def of_retrieval(item: Item) -> Item:
    """Return the item with the rows, title and SQL of the question that has its name, which asks about one retrieval."""
    of = question(item.name)
    return replace(item, compute=partial(read_retrieval_rows, question=item.name), accepts=("retrieval",), title=of.title, source=of.sql)


TABLE1 = of_retrieval(Item(
    "khandelwal2020_table1",
    "Table 1",
    caption=lambda f: (
        f"Perplexity of the model, and of its mixture with the tokens that follow the nearest of {of_store(f)} Neighbours k, temperature T and their share λ "
        f"are chosen on the tune queries, and the test queries are scored with them. {COPY}"
    ),
    n=lambda f: ", ".join(f"{n:,} {part} queries ({others:,} no near-copies)" for part, n, others in f.select("part", "n_queries", "n_others").iter_rows()),
    columns={
        "part": "queries", "perplexity": "model", "perplexity_knn": "with neighbours", "gain": "gain (nats)", "perplexity_others": "model, no copies",
        "perplexity_knn_others": "with neighbours, no copies", "weight": "λ", "k": "k", "temperature": "T", "n_entries": "entries", "n_queries": "n",
    },
    headline="validation 17.96 → 16.06, test 18.65 → 16.12, with λ 0.25 and k 1,024; with a continuous cache 15.81 and 15.79",
    ours=both_splits,
))  # fmt: skip

FIG4 = of_retrieval(Item(
    "khandelwal2020_fig4",
    "Figure 4",
    chart=draw_neighbours,
    caption=lambda f: f"Perplexity of the tune queries by the number of neighbours k, each with the share λ and the temperature T that are best for it. {COPY}",
    n=queries,
    columns={
        "k": "k", "perplexity": "perplexity", "perplexity_others": "no copies", "weight": "λ", "temperature": "T", "is_chosen": "chosen", "n_queries": "n",
    },
    headline="every step to more neighbours lowers the validation perplexity, up to k 1,024",
    ours=by_k,
))  # fmt: skip

FIG5 = of_retrieval(Item(
    "khandelwal2020_fig5",
    "Figure 5",
    chart=partial(draw_query_lines, over="weight", x=WEIGHT_AXIS),
    caption=lambda f: f"Perplexity of the tune queries by the share λ of the neighbours in the mixture, with the k and temperature that were chosen. {COPY}",
    n=queries,
    exclusions="in the figure any λ that leaves a token without probability",
    columns={
        "weight": "λ", "perplexity": "perplexity", "perplexity_others": "no copies", "k": "k", "temperature": "T", "is_chosen": "chosen", "n_queries": "n",
    },
    headline="λ 0.25 is best in the model's own domain, 0.65 in another, which the store is of",
    ours=best_weight,
))  # fmt: skip

FIG7 = Item(
    "khandelwal2020_fig7",
    "Figure 7",
    chart=draw_ngrams,
    caption=lambda f: (
        "Perplexity of the tune queries where the model is mixed with n-grams instead of neighbours, by the share λ of either. The test queries are scored "
        "with the best λ. N-grams count every document of their text whole, which may be more than the store has."
    ),
    n=lambda f: f"{describe_count(f, 'n_queries', 'tune queries')}, {describe_count(f, 'n_test', 'test queries')}",
    exclusions="queries that n-grams do not predict; in the figure any λ that leaves a token without probability",
    if_empty="n-grams predict none of the retrieval's queries; ingest their text with --ngram-split and the name of a split that was counted",
    columns={"mixture": "mixed with", "weight": "λ", "perplexity": "perplexity", "is_chosen": "chosen", "test_perplexity": "test", "n_queries": "n"},
    headline="n-grams take 0.2 off the validation perplexity, neighbours 1.9: they give more than what the last words are followed by",
    ours=of_mixtures,
    compute=mixtures,
    accepts=("retrieval",),
    title="Do neighbours know more than counting does?",
    source=MIXTURES,
)

KHANDELWAL2020 = Paper(
    name="khandelwal2020",
    citation="Khandelwal et al. 2020, Generalization through Memorization: Nearest Neighbor Language Models",
    authors="Khandelwal et al. 2020",
    model="a Transformer on WikiText-103",
    model_note="16 layers, 247M parameters; 103M entries.",
    items=(TABLE1, FIG4, FIG5, FIG7),
    counts_from_one=False,
)
