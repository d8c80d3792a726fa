"""Drawing of the Evidence page: a topic, its choices, and its panels one beneath another."""

import re
from collections.abc import Mapping

import streamlit as st

from atlas.papers.needs import describe_unmet_need
from atlas.questions import Parameter, question
from atlas.ranges import check_arguments
from atlas.reads import relations
from schema.errors import AtlasError
from ui import address_widgets, blocks, charts, data, frame, links
from ui.evidence.topic import Choice, Panel, Topic
from ui.evidence.topics import PAPERS, TOPICS
from ui.snapshot import Snapshot

PUT_ASIDE = {"collections": "Collections", "figures": "Figures for a paper"}
"""Topics whose contents readers collect: name in the address → heading."""

HEADINGS = {**{name: topic.heading for name, topic in TOPICS.items()}, PAPERS: "Figures and tables of the papers", **PUT_ASIDE}
"""Name of a topic in the address → its heading, mostly a question."""

CSS = """<style>
.topics{display:flex;flex-direction:column;gap:.45rem;font-size:.9rem;list-style:none;padding:.4rem 0;margin:0}
.topics li{margin:0}
.topics a{color:inherit;text-decoration:none;border-left:3px solid transparent;padding:.1rem 0 .1rem .5rem;display:block}
.topics a:hover{text-decoration:underline}
.topics a[aria-current]{font-weight:600;border-left-color:currentColor}
@media (max-width:640px){.topics{flex-direction:row;flex-wrap:wrap;gap:.2rem .8rem}}
</style>"""


def read_topic() -> str:
    """Read the topic from the address, the first if it names none. Raises AtlasError if there is no such topic."""
    name = st.query_params.get("show", next(iter(HEADINGS)))
    if name not in HEADINGS:
        frame.title("Evidence")
        raise AtlasError(f"no topic {name}; the topics are {', '.join(HEADINGS)}")
    return name


def list_topics(name: str) -> None:
    """Show links to all topics, with the topic `name` marked."""
    here = {"aria_current": "page"}
    items = "".join(f"<li>{links.anchor(links.evidence(topic), heading, **(here if topic == name else {}))}</li>" for topic, heading in HEADINGS.items())
    st.html(CSS)
    st.html(f'<nav aria-label="Evidence"><ul class="topics">{items}</ul></nav>')


def show(topic: Topic) -> None:
    """Show the whole of a topic except its heading."""
    lacking = [lack(panel, None) for panel in topic.panels]
    # nothing to choose from, and one reason for all
    if all(lacking) and len(set(lacking)) == 1:
        wait(str(lacking[0]))
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        values = {choice: choose(choice, next(p for panel in topic.panels if (p := find_choice_parameter(panel, choice)))) for choice in topic.choices}
        of_text = [question(panel.question).sql for panel in topic.panels if find_parameter(panel, "corpus")]
        corpus = address_widgets.ask_corpus(of_one_text=any("one_corpus" in relations(sql) for sql in of_text)) if of_text else None
    check_arguments(data.atlas().con, {"corpus": corpus})
    for i, panel in enumerate(topic.panels):
        chosen = {choice.argument: value for choice, value in values.items() if value is not None and find_choice_parameter(panel, choice)}
        draw(panel, chosen | ({"corpus": corpus} if find_parameter(panel, "corpus") else {}), f"{panel.question}-{i}")


def find_choice_parameter(panel: Panel, choice: Choice) -> Parameter | None:
    """Find the parameter of the panel's question that a choice sets; None if it sets none."""
    return find_parameter(panel, choice.argument) if choice.of in ("", panel.question) else None


def find_parameter(panel: Panel, argument: str) -> Parameter | None:
    return next((p for p in question(panel.question).parameters if p.name == argument), None)


def choose(choice: Choice, p: Parameter) -> object:
    """Show the widget of a choice, and return its value in the parameter's type; None if the atlas has nothing to choose from."""
    words = choice.words() if callable(choice.words) else choice.words
    if words:
        found = address_widgets.ask_option(choice.label, choice.key, words, words[0], width=240)
        return int(found) if p.type in ("integer", "bigint") else found
    if callable(choice.words):
        return None
    if p.type == "double":
        return address_widgets.ask_number(choice.label, choice.key, None if choice.default is None else float(choice.default), width=180)
    return address_widgets.ask_whole_number(choice.label, choice.key, value=choice.default, placeholder="all", width=140)


@blocks.make_fragment
def draw(panel: Panel, chosen: Mapping[str, object], key: str) -> None:
    """Show a question, its answer in a sentence, the picture and the rows; or what the atlas lacks for it."""
    st.header(question(panel.question).title, anchor=False)
    if reason := lack(panel, chosen.get("corpus")):
        wait(reason)
        return
    found = data.ask(panel.question, **chosen, **panel.fixed)
    if found.frame.is_empty():
        blocks.explain_empty(panel.if_empty)
        return
    st.text(panel.sentence(found.frame))
    chart = panel.picture(found.frame) if panel.picture else None
    parts = [lambda: picture(chart, found, key), lambda: show_rows(panel, found, key)]
    for part in reversed(parts) if panel.is_table_first else parts:
        part()
    blocks.take_away(found, key, chart)


def picture(chart: charts.AnyChart | None, found: data.Answer, key: str) -> None:
    if chart is not None:
        st.altair_chart(charts.apply_screen_style(chart), key=f"{key}-picture", width="stretch", alt=found.title)


def show_rows(panel: Panel, found: data.Answer, key: str) -> None:
    """Show the first rows, and how many there are if not all are shown."""
    if not panel.rows:
        return
    first = found.frame.head(panel.rows)
    columns = [c for c in panel.columns if c in first.columns] or first.columns
    blocks.grid(first.select(columns), first, f"{key}-rows", found.title, found.columns)
    if found.frame.height > panel.rows:
        st.text(f"The first {panel.rows} of {found.frame.height:,} rows; files have all.")


def lack(panel: Panel, corpus: object) -> str | None:
    return reason(data.current_snapshot(), panel.needs, corpus if find_parameter(panel, "corpus") else None)


@st.cache_data(max_entries=256, show_spinner=False)
def reason(snapshot: Snapshot, needs: tuple[str, ...], corpus: object) -> str | None:
    """Explain why this atlas does not meet `needs`, which are keys of atlas/papers/needs.py; None if it does."""
    a = data.open_atlas(snapshot)
    return describe_unmet_need(a.con, a.path.name, needs, corpus)


def wait(reason: str) -> None:
    """Show what is missing, and the commands that fill it."""
    what, _, commands = reason.partition(": `")
    blocks.explain_empty(f"Not here yet: {what}.", "\n".join(re.findall(r"[^`]+(?=`)", commands)[::2]))
