"""What switching parts of the model does to a prompt: the prediction before and after, and how far every token's distribution moves."""

from typing import Any

import polars as pl
import streamlit as st

from ui.prediction import hrefs, lens, waterfall
from ui.prediction.traces import Run

N_TOKENS = 10


def panel(run: Run) -> None:
    st.header("What does switching change?")
    compared = run.of("compare").filter(arm_id=1)
    here = compared.row(by_predicate=pl.col("index") == run.index, named=True)
    st.text(sentence(here))
    st.html(leading(run.of("leading", run.index, N_TOKENS)))
    tokens = [{**row, "is_asked": row["index"] == run.index} for row in compared.iter_rows(named=True)]
    st.text("KL divergence from the unswitched distribution after each token, in nats:")
    st.html(lens.shaded(tokens, "kl_from_base", max(1.0, *(t["kl_from_base"] for t in tokens)), lambda kl: f"{kl:.2f}"))


def sentence(here: dict[str, Any]) -> str:
    """What becomes of the prediction at a token; a row of the trace's comparison."""
    if here["is_as_base"]:
        return "Nothing: not a bit of any state is other than without the switches."
    return (
        f"The log-probability of the prediction changes by {waterfall.signed(here['answer_logprob_change'])} nats, and its rank is {here['answer_rank']:,}; "
        f"the distribution moves by {here['kl_from_base']:.4g} nats (KL)."
    )


def leading(tokens: pl.DataFrame) -> str:
    """The most likely next tokens of both, side by side."""
    base, arm = (tokens.filter(arm_id=k).sort("rank").to_dicts() for k in (0, 1))
    rows = [[str(one["rank"]), *cells(one), *cells(other)] for one, other in zip(base, arm, strict=True)]
    return lens.table(["Rank", "As it is", "Probability", "Switched", "Probability"], rows)


def cells(row: dict[str, Any]) -> list[str]:
    return [lens.token(row["token"], hrefs.of_token(row["token"])), f"{row['prob']:.4f}"]
