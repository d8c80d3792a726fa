"""Frame of every page: the bar with the atlas's name and the pages, the title of the view and of its tab, and how links are followed."""

from html import escape
from pathlib import Path

import streamlit as st

from atlas.export.visible import visible_line
from schema.errors import AtlasError
from ui import data, links
from ui.links import Link

SCRIPT = Path(__file__).with_name("soft.js").read_text(encoding="utf-8")

CSS = """<style>
[data-testid=stMainBlockContainer]{padding:.35rem clamp(.8rem,3vw,3rem) 3rem}
[data-testid=stHeader]{height:2.6rem;min-height:0;background:transparent;pointer-events:none}
[data-testid=stHeader] *{pointer-events:auto}
[data-testid=stToolbar]{height:2.6rem;min-height:0;width:auto;margin-left:auto;padding:0}
[data-testid=stMain] h1{padding:.2rem 0 .1rem;margin:0}
[data-testid=stHtml]>h1{font-size:1.6rem}
[data-testid=stHtml]>h2{font-size:1.25rem;margin:0;padding:.5rem 0 0}
[data-testid=stLayoutWrapper]:has(>.st-key-bar){position:sticky;top:0;z-index:99990;background:light-dark(#fff,#171614)}
[data-testid=stHtml] a{color:light-dark(#0064a0,#56b4e9)}
.bar a,[data-testid=stHtml] table.rows a{color:inherit}
.bar{display:flex;flex-wrap:wrap;align-items:center;gap:.1rem .9rem;padding:.25rem 3rem .25rem 0;border-bottom:1px solid #8886;font-size:.95rem}
.bar a{text-decoration:none;padding:.2rem .1rem;border-bottom:2px solid transparent}
.bar a:hover{text-decoration:underline}
.bar a[aria-current]{font-weight:600;border-bottom-color:currentColor}
.bar ul{display:flex;flex-wrap:wrap;gap:0 .9rem;list-style:none;margin:0;padding:0}
.bar li{margin:0}
.bar details{position:relative}
.bar summary{cursor:pointer;max-width:19rem;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.bar summary b{font-weight:600}
.bar details>div{position:absolute;top:100%;left:0;min-width:17rem;max-width:85vw;padding:.5rem .8rem;display:flex;flex-direction:column;gap:.25rem;
background:#fff;color:#111;border:1px solid #888;border-radius:.4rem;overflow-wrap:anywhere}
.bar form{flex:1 1 11rem;max-width:24rem;margin:0}
.bar input[type=search]{width:100%;box-sizing:border-box;padding:.2rem .5rem;font:inherit;font-size:.9rem;color:inherit;background:transparent;
border:1px solid #8889;border-radius:.4rem}
@media (max-width:640px){.bar{font-size:.88rem;padding-right:2.4rem}.bar ul{gap:0 .25rem}}
</style>"""


def follow_softly() -> None:
    """Follow links without loading the page anew. The script is entirely ours, and holds nothing of the atlas."""
    st.html(f"<script>{SCRIPT}</script>", unsafe_allow_javascript=True)


def title(text: str, *, keep: Link | None = None) -> None:
    """Set the title of the view, and that of its tab with the model's name. Plain characters only: titles are Markdown.

    `keep`: target of the bar's link to this page for the rest of the visit.
    """
    tab(text)
    st.title(text, anchor=False)
    if keep:
        room_links()[keep.room] = keep


def room_links() -> dict[str, Link]:
    """Map each page to the target of its link in the bar. Each atlas has its own map, since another atlas may not have the target."""
    return st.session_state.setdefault("kept", {}).setdefault(data.current_snapshot().path, {})


def tab(text: str) -> None:
    """Set the title of the browser's tab, with the model's name."""
    name = data.model_name()
    st.set_page_config(page_title=f"{text} · {name}" if name else text)


def show_heading(name: str, level: int) -> None:
    """Show a name that people chose as a heading, as plain characters.

    Streamlit's own headings are Markdown, and would follow an image or a link in the name.
    """
    st.html(f"<h{level}><bdi>{escape(visible_line(name))}</bdi></h{level}>")


def check_model() -> None:
    """Raise AtlasError if the address belongs to another model, so that nothing of this model is shown instead."""
    asked, here = st.query_params.get(links.OF, ""), data.identity()
    if asked and asked != here:
        title("Another model")
        raise AtlasError(f"this link belongs to a model with the weights {asked[:16]}…, but {data.file_name()} is of {data.model_line() or 'none'} ({here}…)")


def bar(room: str, published: str) -> None:
    """Show the bar: the pages, and in a menu under the atlas's name its description, overview and SQL.

    `room`: the page shown; `published`: how long ago the snapshot was published, in words.
    """
    with st.container(key="bar"):
        st.html(bar_html(room, published, room_links(), st.query_params.get("q", "")))


def bar_html(room: str, published: str, kept: dict[str, Link], typed: str) -> str:
    """Build the bar as HTML. `kept`: page → target of its link; `typed`: the text in the search box."""
    rooms = "".join(f"<li>{room_anchor(kept.get(name, Link(name)), title, name == room)}</li>" for name, title in links.ROOMS.items())
    behind = "".join(room_anchor(Link(name), title, name == room) for name, title in ((links.OVERVIEW, "Overview"), (links.SQL, "SQL")))
    model = data.model_line()
    about = "".join(f"<bdi>{escape(visible_line(line))}</bdi>" for line in (f"{data.file_name()}, published {published} ago", model) if line)
    named = f"<b>{escape(visible_line(data.file_name()))}</b>{f' · {escape(visible_line(model))}' if model else ''}"
    menu = f'<details class="atlas"><summary>{named}</summary><div>{about}{behind}{switches(room)}</div></details>'
    return f'<nav class="bar" aria-label="Rooms">{menu}<ul>{rooms}</ul>{box(typed)}</nav>'


def switches(room: str) -> str:
    """Build links to this view in every other atlas that is served, alone and beside this one."""
    if len(data.paths()) < 2:
        return ""
    here = {name: value for name, value in st.query_params.items() if name not in (links.OF, "vs")}
    lines = []
    for identity, path in data.paths_by_name().items():
        if path != data.current_snapshot().path:
            name = escape(visible_line(Path(path).name))
            alone, both = links.address(links.link(room, **here), identity), links.href(links.link(room, **here, vs=identity))
            lines.append(f'<span><a href="{escape(alone)}">{name}</a> · <a href="{escape(both)}">beside this one</a></span>')
    return "".join(lines)


def box(typed: str) -> str:
    """Build the search box. It is an HTML form, which loads the Search page even without the script."""
    of = f'<input type="hidden" name="{links.OF}" value="{escape(data.identity() or "")}">' if data.identity() else ""
    hint = "L20N100, L7H3, a position, a token, words"
    value = f' value="{escape(typed)}"' if is_plain(typed) else ""
    field = f'<input type="search" name="q" placeholder="Find L20N100, a token …" aria-label="Find: {hint}" maxlength="200" autocomplete="off" required{value}>'
    return f'<form class="box" action="/{links.SEARCH}" method="get" role="search">{field}{of}</form>'


def is_plain(typed: str) -> bool:
    """Tell whether the browser's sanitiser keeps a text in an attribute: it drops an attribute whose text looks like markup."""
    return not set(typed) & set("<>")


def room_anchor(to: Link, title: str, is_here: bool) -> str:
    return links.anchor(to, title, **({"aria_current": "page"} if is_here else {}))
