"""The items of causal tracing (Meng et al. 2022, section 2)."""

import altair as alt
import polars as pl

from atlas import charts
from atlas.export.visible import visible_line
from atlas.papers.experiment_rows import averages, trace_of
from atlas.papers.items import Item, Paper
from atlas.papers.labels import label
from atlas.papers.words import describe_count, number
from atlas.questions import question
from schema.terms import TOKEN_ROLES

NOT_SAID = (
    "It says where information is carried. It does not say where editing the model would change it: "
    "how well an edit does is nearly unrelated to it (Hase et al. 2023)."
)


def one_prompt(frame: pl.DataFrame) -> str:
    row = frame.row(0, named=True)
    clean = row["corrupted_prob"] + row["total_effect"]
    at_start = frame.filter(pl.col("index") == 0, pl.col("role").str.starts_with("subject")).height > 0
    hit = " The noise hits index 0, where many models keep a state that no single one restores." if at_start else ""
    return (
        f"Probability of {visible_line(row['answer'] or '')!r} after “{visible_line(row['text'])}”, gained by putting one clean state back after noise on the "
        f"subject (*). As the model is p = {clean:.3f}; with nothing put back p* = {row['corrupted_prob']:.3f}, so TE = {row['total_effect']:.3f}. "
        f"{windows(frame)}{hit} {NOT_SAID}"
    )


def windows(frame: pl.DataFrame) -> str:
    """Describe, for each site, how many layers are restored together."""
    found = frame.select("site", "window_layers").unique().sort("site").rows()
    return f"Layers put back together: {', '.join(f'{site} {n}' for site, n in found)}."


def of_roles(frame: pl.DataFrame) -> str:
    return (
        "Mean over prompts of the probability of the answer that putting one clean state back gains after noise on the subject (AIE), by what the token is to "
        f"the prompt; of several tokens of a role in one prompt their mean. {windows(frame)} {NOT_SAID}"
    )


def describe_largest_effects(frame: pl.DataFrame) -> str:
    """Describe for each site the role and the layer with the largest mean effect."""
    best = frame.sort("effect", descending=True, maintain_order=True).unique("site", keep="first", maintain_order=True)
    found = [f"{row['site']} {row['effect']:.1%} at {row['role']}, layer {row['layer']}" for row in best.rows(named=True)]
    return f"ATE {number(frame['total_effect'].max(), '.1%')}; largest AIE: {'; '.join(found)}"  # type: ignore[arg-type]


def draw_trace(frame: pl.DataFrame) -> alt.LayerChart:
    """Draw the effects at every token of the prompt; the subject's tokens are marked with *."""
    tokens = frame.unique("index").sort("index")
    names = [label(token) + ("*" if role.startswith("subject") else "") for token, role in tokens.select("token", "role").rows()]
    rows = {index: row for row, index in enumerate(tokens["index"].to_list())}
    return charts.heat_map(frame.with_columns(pl.col("index").replace_strict(rows).alias("row")), names, "Indirect effect")


def draw_average(frame: pl.DataFrame) -> alt.LayerChart:
    """Draw the average effects at every role that some prompt has, in the order of a prompt."""
    order = ("other", *(role for role in TOKEN_ROLES if role != "other"))
    roles = [role for role in order if role in set(frame["role"])]
    rows = {role: row for row, role in enumerate(roles)}
    return charts.heat_map(frame.with_columns(pl.col("role").replace_strict(rows).alias("row")), [name_role(role) for role in roles], "Average indirect effect")


def name_role(role: str) -> str:
    return {"other": "before the subject", "last": "last token"}.get(role, role.replace("_", " "))


TRACE = Item(
    "meng2022_trace",
    "Section 2: one prompt",
    chart=draw_trace,
    caption=one_prompt,
    n=lambda f: f"{describe_count(f, 'n_draws', 'draws')} of noise, the same for each of {f.height:,} states",
    exclusions="nothing of the prompt; layers that were not asked for",
    columns={
        "site": "site", "window_layers": "window", "layer": "layer", "index": "index", "token": "token", "role": "role", "prob": "p", "prob_se": "se",
        "effect": "IE", "logprob": "log p", "logit_difference": "logit difference",
    },
    compute=trace_of,
    accepts=("experiment", "prompt"),
    title="Where does putting a state back bring the answer back?",
    source=question("causal_trace").sql,
)  # fmt: skip

AVERAGE = Item(
    "meng2022_average",
    "Section 2: averages",
    chart=draw_average,
    caption=of_roles,
    n=lambda f: f"{describe_count(f, 'n_prompts', 'prompts')} of {describe_count(f, 'n_clusters', 'templates')}",
    exclusions="prompts that the model answers otherwise",
    columns={
        "site": "site", "window_layers": "window", "role": "role", "layer": "layer", "n_prompts": "prompts", "n_clusters": "templates", "effect": "AIE",
        "effect_se": "se", "total_effect": "ATE",
    },
    ours=describe_largest_effects,
    compute=averages,
    accepts=("experiment",),
    title="Where does putting a state back bring answers back on average, by the token's role?",
    source=question("indirect_effects").sql,
)  # fmt: skip

MENG2022 = Paper(
    name="meng2022",
    citation="Meng et al. 2022, Locating and Editing Factual Associations in GPT",
    authors="Meng et al. 2022",
    model="GPT-2 XL",
    model_note="48 layers.",
    items=(TRACE, AVERAGE),
    counts_from_one=False,
)
