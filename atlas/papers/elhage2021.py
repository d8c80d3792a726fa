"""The items of Elhage et al. 2021, in the paper's order."""

import altair as alt
import polars as pl

from atlas import charts
from atlas.address import Head
from atlas.papers.items import Item, Paper
from atlas.papers.words import describe_count, number, percent

COPIES = 0.5
"""Least ratio of a head, and least share of copies among its skip-trigrams, to count as copying."""

COMMONEST = 500
"""Number of commonest tokens that the sentence on bigrams is about; the row nearest to it is taken."""

LEARNED, UNLEARNED = 0.5, 0.2
"""Shares of the loss saved on repeated tokens: above the first a model counts as predicting them, below the second as not predicting them yet."""

HEADS_BORN = {"induction": "induction", "previous": "previous token"}
"""Column of elhage2021_birth → the behaviour that it measures."""

EMBEDDINGS = {"uncentred": "uncentred", "token": "centred", "effective": "centred, as layers find them"}
"""Kind of token embedding in a row of elhage2021_copying → its name in a legend."""

KINDS = {"k": "keys", "q": "queries", "v": "values"}

INDUCES = 0.3
"""Mean weight above which a head is counted as an induction head."""


def copying_heads(frame: pl.DataFrame) -> str:
    """Count the heads with a ratio of one half or more: 'of 270: 124 (uncentred), …'."""
    found = []
    for embedding, name in EMBEDDINGS.items():
        rows = frame.filter(embedding=embedding)
        found.append(f"{rows.filter(pl.col('lower_edge') >= COPIES - 1e-9)['n_heads'].sum()} ({name})")
    return f"of {n_heads(frame)}: {', '.join(found)} have a ratio of {COPIES} or more"


def n_heads(frame: pl.DataFrame) -> str:
    return f"{frame.filter(embedding='effective')['n_heads'].sum():,} heads"


def strongest(frame: pl.DataFrame) -> str:
    """Name the pair with the largest K-composition, and by how much it is above chance."""
    row = frame.filter(kind="k").sort("max_excess", descending=True, maintain_order=True).row(0, named=True)
    return f"largest K-composition: {Head(row['from_layer'], row['from_head'])} into {Head(row['layer'], row['head'])}, {row['max_excess']:.3f} above chance"


def induction_heads(frame: pl.DataFrame) -> str:
    """Count the induction heads on the probe, and those of them with both ratios above 0; name the first."""
    found = frame.filter(pl.col("induction") > INDUCES)
    if found.is_empty():
        return f"no head looks there with more than {INDUCES} of its weight"
    both = found.filter((pl.col("copying_effective") > 0) & (pl.col("matching") > 0))
    first = found.row(0, named=True)
    read = f", whose keys read {Head(first['from_layer'], first['from_head'])} most" if first["from_layer"] is not None else ""
    return (
        f"{found.height} heads with more than {INDUCES} of their weight there, {both.height} of them with both ratios above 0; "
        f"first {Head(first['layer'], first['head'])} ({number(first['induction'], '.2f')}){read}"
    )


def bigrams(frame: pl.DataFrame) -> str:
    """Describe for which share of the commonest tokens the direct path names the top follower, and its KL divergence from their followers."""
    row = frame.sort((pl.col("n_tokens") - COMMONEST).abs(), maintain_order=True).row(0, named=True)
    return (
        f"of the {row['n_tokens']:,} commonest tokens' top followers {percent(row['top_share'], 0)}, {percent(row['top10_share'], 0)} in its top 10; "
        f"KL {row['kl_direct']:.2f} nats, of the unigram {row['kl_unigram']:.2f}"
    )


def copying_shares(frame: pl.DataFrame) -> str:
    """Count the heads whose largest skip-trigrams are mostly copies."""
    heads = frame.unique(["layer", "head"])
    return f"{heads.filter(pl.col('copying_share') >= COPIES).height} of {heads.height} heads, whose 100 largest are copies by half or more"


def term_falls(frame: pl.DataFrame) -> str:
    """Describe by how much each kind of path lowers the loss on the first corpus; the single heads of each layer alone are in brackets."""
    rows = frame.filter(corpus_id=frame["corpus_id"].min())
    falls = dict(rows.select("part", "fall").iter_rows())
    layers = ", ".join(f"of layer {layer} {fall:.2f}" for layer, fall in rows.drop_nulls("layer").select("layer", "fall").iter_rows())
    of_several = rows.filter(pl.col("most_heads") > 1)["fall"].to_list()
    return (
        f"direct path {falls['direct path']:.2f} nats (from uniform; the unigram {falls['unigram']:.2f}), single heads {falls['single heads']:.2f} "
        f"(alone {layers}), virtual heads {number(sum(of_several) if of_several else None, '.2f')}"
    )


def birth(frame: pl.DataFrame) -> str:
    """Describe between which checks of the training the loss on the second block falls below half of that on the first, and how both heads change meanwhile."""
    half = frame.filter(pl.col("saved") > LEARNED)
    if half.is_empty():
        steps, saved, induction = (max(frame[column].to_list()) for column in ("step", "saved", "induction"))
        return f"none in {steps:,} steps: the second block saves {percent(saved, 0)} at most, induction {induction:.2f}"
    last = half.row(0, named=True)
    before = frame.filter((pl.col("step") < last["step"]) & (pl.col("saved") < UNLEARNED))
    first = frame.row(0, named=True) if before.is_empty() else before.row(-1, named=True)
    changes = ", ".join(f"{name} {first[column]:.2f} to {last[column]:.2f}" for column, name in HEADS_BORN.items())
    end = frame.row(-1, named=True)
    heads = " and ".join(f"{Head(end[f'{name}_layer'], end[f'{name}_head'])} {end[name]:.2f}" for name in HEADS_BORN)
    return (
        f"between steps {first['step']:,} and {last['step']:,} the second block goes from saving {percent(first['saved'], 0)} of the first one's loss to "
        f"{percent(last['saved'], 0)}, {changes}; at the end {percent(end['saved'], 0)}, {heads}"
    )


def draw_bigram(frame: pl.DataFrame) -> alt.Chart:
    """Draw both KL divergences over growing numbers of commonest tokens of the first corpus."""
    names = {"kl_direct": "direct path", "kl_unigram": "unigram"}
    first = frame.filter(corpus_id=frame["corpus_id"].min()).rename(names).with_columns(tokens=pl.format("{}", "n_tokens"))
    long = first.unpivot(index="tokens", on=list(names.values()), variable_name="path", value_name="nats")
    return charts.bars(long, x="tokens", y="nats", y_title="KL divergence (nats)", series="path", order=list(names.values()))


def draw_copying_histogram(frame: pl.DataFrame) -> alt.LayerChart:
    """Draw the histogram of copying ratios as steps, for each embedding."""
    names = list(EMBEDDINGS.values())
    last = frame.filter(pl.col("bin") == 20).with_columns(lower_edge=pl.lit(1.0))
    shown = pl.concat([frame.with_columns(pl.col("lower_edge").cast(pl.Float64)), last], how="vertical_relaxed").with_columns(
        embedding=pl.col("embedding").replace_strict(EMBEDDINGS)
    )
    steps = alt.Chart(shown).encode(
        x=alt.X("lower_edge:Q", title="Sum of eigenvalues / sum of moduli", scale=alt.Scale(domain=[-1, 1]), axis=alt.Axis(tickCount=5)),
        y=charts.y_axis("n_heads", "Heads", "d"),
        color=alt.Color("embedding:N", scale=alt.Scale(domain=names, range=charts.OKABE_ITO[:3]), legend=charts.legend(names, charts.COLUMN)),
    )
    # a mark for each dash, as in charts.lines
    drawn = [
        steps.transform_filter(alt.FieldEqualPredicate(field="embedding", equal=name)).mark_line(interpolate="step-after", strokeWidth=1.2, strokeDash=dash)
        for name, dash in zip(names, charts.DASHES, strict=False)
    ]
    return charts.apply_print_theme(alt.layer(*drawn), width=charts.COLUMN, height=charts.HEIGHT)


def draw_composition(frame: pl.DataFrame) -> alt.LayerChart:
    """Draw the largest score above chance with which a head of each layer reads an earlier one."""
    largest = frame.group_by("kind", "layer").agg(pl.col("max_excess").max()).sort("kind", "layer")
    return charts.lines(largest, y="max_excess", y_title="Largest score above chance", series="kind", order=KINDS)


def draw_terms(frame: pl.DataFrame) -> alt.Chart:
    """Draw by how much each kind of path lowers the loss on the first corpus."""
    shown = frame.filter(pl.col("corpus_id") == frame["corpus_id"].min(), pl.col("most_heads").is_not_null())
    return charts.ranked_bars(shown, y="part", x="fall", x_title="Loss lower by (nats)", format="~f")


def draw_birth(frame: pl.DataFrame) -> alt.LayerChart:
    """Draw the share of the loss saved, and the weights of the induction head and the previous-token head, over the steps of training."""
    names = {"saved": "loss saved", "induction": "induction", "previous": "previous token"}
    long = frame.select("step", *names).rename(names).unpivot(index="step", variable_name="series", value_name="share")
    order = list(names.values())
    base = alt.Chart(long).encode(
        x=alt.X("step:Q", title="Training step", axis=alt.Axis(format="~s", tickCount=5, grid=False)),
        y=charts.y_axis("share", "Share of loss, of weight", "~%"),
        color=alt.Color("series:N", scale=alt.Scale(domain=order, range=charts.OKABE_ITO[:3]), legend=charts.legend(order, charts.COLUMN)),
    )
    # a mark for each dash, as in charts.lines
    drawn = [
        base.transform_filter(alt.FieldEqualPredicate(field="series", equal=name)).mark_line(strokeWidth=1.2, strokeDash=dash)
        for name, dash in zip(order, charts.DASHES, strict=False)
    ]
    return charts.apply_print_theme(alt.layer(*drawn), width=charts.COLUMN, height=charts.HEIGHT)


def draw_induction(frame: pl.DataFrame) -> alt.Chart:
    """Draw each head by the copying of its OV circuit and the matching of its QK circuit, coloured by its induction on random tokens."""
    ends = alt.Scale(domain=[-1, 1])
    drawn = (
        # the strongest on top of the others
        alt.Chart(frame.drop_nulls("matching").sort("induction"))
        .mark_point(filled=True, opacity=1, stroke="#333333", strokeWidth=0.3, size=24)
        .encode(
            x=alt.X("copying_effective:Q", title="OV circuit: copying", scale=ends, axis=alt.Axis(tickCount=5)),
            y=alt.Y("matching:Q", title="QK circuit through the earlier head: matching", scale=ends, axis=alt.Axis(tickCount=5)),
            color=alt.Color(
                "induction:Q",
                scale=alt.Scale(scheme="viridis", domain=[0, 1], reverse=True),
                legend=alt.Legend(title="Induction on random tokens that repeat", gradientLength=100, format="~%"),
            ),
        )
    )
    return charts.apply_print_theme(drawn, width=charts.COLUMN, height=charts.COLUMN)


BIGRAM = Item(
    "elhage2021_bigram",
    "Zero-layer models",
    chart=draw_bigram,
    caption=lambda f: (
        "How far the direct path, from embedding to output head past all blocks, is from what follows the commonest tokens of a corpus: KL divergence, "
        "beside that of the frequencies of tokens, which knows nothing of the token before."
    ),
    n=lambda f: describe_count(f, "n_followed", "followed tokens"),
    columns={
        "corpus_id": "corpus", "n_tokens": "commonest", "top_share": "top follower first", "top10_share": "in top 10", "kl_direct": "KL, direct",
        "kl_unigram": "KL, unigram", "n_followed": "n",
    },
    headline="a zero-layer model is a table of bigrams; in larger ones the direct path is what blocks do not say",
    ours=bigrams,
)  # fmt: skip

SKIP_TRIGRAMS = Item(
    "elhage2021_skip_trigrams",
    "One-layer models: skip-trigrams",
    caption=lambda f: (
        "Of every head the triples source … destination → out that it weighs most, one a source, of tokens that follow each other in the text: "
        "how much the destination looks for the source, times what the source adds to the logit of out; with how often the text has them."
    ),
    n=lambda f: f"{f.unique(['layer', 'head']).height:,} heads",
    columns={
        "layer": "layer", "head": "head", "source": "source", "destination": "destination", "out": "out", "score": "score", "n": "in the text",
        "n_after": "of", "lift": "lift", "copying_share": "copies",
    },
    headline="keep … in → mind and its like; most heads are used for copying, [b] … [a] → [b]",
    ours=copying_shares,
)  # fmt: skip

COPYING = Item(
    "elhage2021_copying",
    "One-layer models: copying",
    chart=draw_copying_histogram,
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
    chart=draw_composition,
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
    chart=draw_induction,
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

TERMS = Item(
    "elhage2021_terms",
    "Two-layer models: term importance",
    chart=draw_terms,
    caption=lambda f: (
        "By how much paths from token to logits lower the loss: the direct path, past all heads, below that of equal odds for all tokens; single heads, all "
        "and of one layer alone, below the direct path; virtual heads, which read what others wrote, below paths through one head less. Attention patterns "
        "are held as the whole model has them."
    ),
    n=lambda f: describe_count(f, "n", "predictions"),
    columns={"corpus_id": "corpus", "part": "part", "loss": "loss", "fall": "lower by", "last_fall": "with all others"},
    headline="the direct path lowers the loss by 1.8 nats, single heads by 5.2 more, mostly those of the second layer, virtual heads by 0.3 more",
    ours=term_falls,
)

BIRTH = Item(
    "elhage2021_birth",
    "Two-layer models: how induction heads arise",
    chart=draw_birth,
    caption=lambda f: (
        "Random tokens read twice, at checks of the training: the share of the loss on the first block that the second does not have, and of the heads that "
        "have most of it the weight on the token after the present one's first copy (induction) and on the token before."
    ),
    n=lambda f: f"{f.height} checks",
    columns={
        "step": "step", "first_block": "loss, first block", "second_block": "second", "saved": "saved", "induction": "induction",
        "induction_layer": "layer", "induction_head": "head", "previous": "previous token", "previous_layer": "its layer", "previous_head": "its head",
    },
    headline="induction heads need two layers; Olsson et al. 2022: they arise in one abrupt change early in training, and learning in context with them",
    ours=birth,
)  # fmt: skip

ELHAGE2021 = Paper(
    name="elhage2021",
    citation="Elhage et al. 2021, A Mathematical Framework for Transformer Circuits",
    authors="Elhage et al. 2021",
    model="attention-only models",
    model_note="One and two layers of 12 heads of 64, context 2,048.",
    items=(BIGRAM, SKIP_TRIGRAMS, COPYING, TERMS, COMPOSITION, INDUCTION, BIRTH),
)
