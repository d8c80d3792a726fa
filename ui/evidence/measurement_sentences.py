"""Sentences on the rows of probes, retrieval, tests and reading, one for each question. Pure: rows in, words out; there is at least one row."""

import polars as pl

from atlas.export.visible import visible_text
from atlas.papers.words import NONE, number, percent
from ui.evidence.sentences import first_row, format_signed, head_address
from ui.number_format import format_count


def describe_probes(frame: pl.DataFrame) -> str:
    best = frame.sort("accuracy", "layer", descending=[True, False], nulls_last=True).row(0, named=True)
    picky = frame.sort("selectivity", "layer", descending=[True, False], nulls_last=True).row(0, named=True)
    by = f"by {percent(picky['selectivity'])}"
    above = f"It is furthest above what a probe memorises at layer {picky['layer']}, {by}."
    below = f"It is nowhere above what a probe memorises; it comes nearest at layer {picky['layer']}, {by}."
    return (
        f"Best at {best['site']} of layer {best['layer']}: {percent(best['accuracy'])} of {format_count(best['n_test'], 'word')}; "
        f"the commonest label of each type alone is right for {percent(best['type_accuracy'])}, random weights for {percent(best['untrained_accuracy'])}. "
        f"{above if picky['selectivity'] is None or picky['selectivity'] > 0 else below}"
    )


def describe_confusion(frame: pl.DataFrame) -> str:
    row = first_row(frame)
    return (
        f"The commonest mistake: {row['label']} taken for {row['predicted']}, {format_count(row['n_words'], 'word')} ({percent(row['share'])} of that label), "
        f"as in {visible_text(row['example'])}."
    )


def describe_trees(frame: pl.DataFrame) -> str:
    best = frame.sort("uuas", "layer", descending=[True, False]).row(0, named=True)
    return (
        f"Best at {best['site']} of layer {best['layer']}: {percent(best['uuas'])} of {format_count(best['n_edges'], 'edge')} of the parse trees; "
        f"joining each word to the next finds {percent(best['chain_uuas'])}, random weights {percent(best['untrained_uuas'])}."
    )


def describe_relations(frame: pl.DataFrame) -> str:
    best = frame.sort("gain", descending=True).row(0, named=True)
    above = int((frame["gain"] > 0).sum())
    follows = f"{percent(best['accuracy'])} instead of {percent(best['offset_accuracy'])}"
    found = f"{head_address(best)} follows {best['relation']} furthest above the best fixed offset"
    none = f"No head follows a relation more often than the best fixed offset; {head_address(best)} comes nearest, with {best['relation']}"
    return (
        f"{found if above else none}: {follows}. "
        f"Of {format_count(frame.height, 'relation and direction', 'relations and directions')} {above:,} have a head that beats the offset."
    )


def describe_retrieval(frame: pl.DataFrame) -> str:
    found = frame.filter(pl.col("part") == "test", pl.col("queries") == "all")
    if found.is_empty():
        return "No retrieval has been scored on its test text."
    row = first_row(found)
    others = frame.filter(pl.col("part") == "test", pl.col("queries") == "others", pl.col("retrieval") == row["retrieval"])
    apart = f", and from {others['perplexity'][0]:.1f} to {others['perplexity_knn'][0]:.1f} without near-copies" if others.height else ""
    seen = row["n_earlier_tests"]
    again = f" This test text had been scored {format_count(int(seen), 'time')} before." if seen else ""
    return (
        f"With {row['n_entries']:,} entries beside the model perplexity goes from {row['perplexity']:.1f} to {row['perplexity_knn']:.1f} "
        f"over {row['n_queries']:,} queries{apart}.{again}"
    )


def describe_knn_curve(frame: pl.DataFrame) -> str:
    row = first_row(frame.filter(pl.col("is_chosen")) if frame["is_chosen"].any() else frame.sort("perplexity"))
    alone = next(iter(frame.filter(pl.col("weight") == 0)["perplexity"]), None)
    return (
        f"Chosen: {row['k']} neighbours, λ = {row['weight']:g}, temperature {row['temperature_steps']:g} × the median distance; perplexity "
        f"{row['perplexity']:.1f} on the queries it was chosen on, {number(alone, '.1f')} without neighbours."
    )


def describe_copies(frame: pl.DataFrame) -> str:
    none = frame.filter(pl.col("part") == "test", pl.col("sort_of_copy") == "none")
    share = none["share_of_gain"][0] if none.height else None
    return f"Queries that are no near-copy of the store's text bring {percent(share, 0)} of the gain on the test text."


def select_paradigms(frame: pl.DataFrame) -> pl.DataFrame:
    """Select the paradigms of all suites, each under a name of its own, the hardest first."""
    return frame.drop_nulls("paradigm").sort("accuracy").with_columns(pl.format("{} ({}): {}", "suite", "kind", "paradigm").alias("paradigm"))


def describe_suites(frame: pl.DataFrame) -> str:
    all_of = frame.filter(pl.col("paradigm").is_null())
    said = [f"{row['suite']} ({row['kind']}) {percent(row['accuracy'])} of {format_count(int(row['n_items']), 'item')}" for row in all_of.iter_rows(named=True)]
    single = frame.drop_nulls("paradigm").sort("accuracy")
    worst = f" Hardest: {single['paradigm'][0]}, {percent(single['accuracy'][0])}." if single.height else ""
    return f"Passed: {', '.join(said) or NONE}.{worst}"


def name_parts(frame: pl.DataFrame) -> pl.DataFrame:
    """Add the corpus to the name of each part if there are several corpora."""
    return frame if frame["corpus_id"].n_unique() < 2 else frame.with_columns(pl.format("{} of corpus {}", "part", "corpus_id").alias("part"))


def describe_perplexity(frame: pl.DataFrame) -> str:
    frame = name_parts(frame)
    row = first_row(frame)
    counts = row["perplexity_ngram5"]
    beside = f"; counted 5-grams have {counts:.1f}" if counts is not None else ""
    most = frame.sort("perplexity", descending=True, nulls_last=True).row(0, named=True)
    hardest = f" Highest for {most['part']}: {most['perplexity']:.1f}." if most != row else ""
    return f"Perplexity {row['perplexity']:.1f} over {format_count(int(row['n_positions']), 'position')} of {row['part']}{beside}.{hardest}"


def describe_calibration(frame: pl.DataFrame) -> str:
    n = int(frame["n_positions"].sum())
    gap = float((frame["gap"] * frame["n_positions"]).sum() / n) if n else 0.0
    way = "it claims neither too much nor too little" if abs(gap) < 0.0005 else f"it claims {'too much' if gap < 0 else 'too little'}, by {percent(abs(gap))}"
    return f"On average its confidence differs by {percent(frame['ece'][0])} from how often it is right; overall {way}, over {format_count(n, 'prediction')}."


def describe_abstention(frame: pl.DataFrame) -> str:
    every = first_row(frame)
    half = frame.filter(pl.col("coverage") > 0).sort((pl.col("coverage") - 0.5).abs()).row(0, named=True)
    return (
        f"If the model always answers, {percent(every['accuracy'])} of its answers are right; {percent(half['accuracy'])} are if it answers at probability "
        f"{half['threshold']:.2f} or more, which is at {percent(half['coverage'], 0)} of the positions."
    )


def describe_against_counts(frame: pl.DataFrame) -> str:
    everything = frame.filter(pl.col("matched_order").is_null())
    row = first_row(everything if everything.height else frame)
    return (
        f"The model gains {format_signed(row['mean_gain'])} nats a position over counting; counting is better at "
        f"{percent(row['ngram_better'], 0)} of {row['n_positions']:,} positions; "
        f"mixed, perplexity is {row['perplexity_mixed']:.1f} instead of {row['perplexity']:.1f}."
    )


def describe_surprises(frame: pl.DataFrame) -> str:
    row = first_row(frame)
    return (
        f"The surest mistake: after {visible_text(row['token'])} the model expects {visible_text(row['top_token'])} with probability {row['top_prob']:.3f}; "
        f"{visible_text(row['next_token'])} follows, at rank {row['next_token_rank']:,}."
    )
