"""The figure tray: drawings that readers collect in this browser tab, in order, with their own captions, and their files."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import streamlit as st

from atlas.export.drawings import Drawing, archive, name_drawings, to_pdf, to_svg, to_tex
from ui import data, links
from ui.data import Answer

MOST = 50
"""Maximum number of figures in a tray."""

Made = Callable[[], tuple[str, str]]
"""Function that draws a view: SVG, and LaTeX of its own or ''."""


@dataclass
class TrayFigure:
    """A figure in the tray. `id` identifies its view, so that a view is added only once."""

    id: str
    drawing: Drawing


def tray() -> list[TrayFigure]:
    """Get the tray of this tab."""
    return st.session_state.setdefault("tray", [])


@st.fragment
def offer(answer: Answer, key: str, made: Made) -> None:
    """Offer a button that puts a view into the tray, or a link to the tray if the view is there."""
    own = hashlib.sha256(f"{key} {answer.sql} {data.current_snapshot().path}".encode()).hexdigest()[:16]
    if any(kept.id == own for kept in tray()):
        st.html(links.anchor(links.evidence("figures"), f"In the figure tray ({len(tray())})"))
        return
    st.button(
        "Add to figure",
        icon=":material/add_photo_alternate:",
        key=f"{key}-to-figure",
        disabled=len(tray()) >= MOST,
        on_click=add_figure,
        args=(own, answer, made),
    )


def add_figure(own: str, answer: Answer, made: Made) -> None:
    """Put a view into the tray."""
    svg, latex = made()
    tray().append(TrayFigure(own, Drawing(answer.name, answer.caption, svg, latex, data.source(answer))))


def page() -> None:
    """Show the tray: every figure with its caption and files, and all of them in one archive."""
    kept = tray()
    if not kept:
        st.text("No figures yet. The button “Add to figure” beneath a text, a grid or a chart adds one. Figures are kept while this tab is open.")
        return
    n = len(kept)
    st.text(f"{'One figure' if n == 1 else f'{n} figures'}, kept while this tab is open. The archive has figures.tex, ready to paste, and each as PDF and SVG.")
    drawings = name_drawings([replace(k.drawing, caption=caption_of(k)) for k in kept])
    st.download_button("Download all (zip)", lambda: archive(drawings), file_name="figures.zip", key="tray-all", on_click="ignore", icon=":material/download:")
    for i, (figure, drawing) in enumerate(zip(kept, drawings, strict=True)):
        with st.container(border=True):
            st.image(drawing.svg, width="stretch")
            st.text_area("Caption", figure.drawing.caption, key=f"caption-{figure.id}", height=68)
            buttons(i, figure, drawing)


def caption_of(kept: TrayFigure) -> str:
    return str(st.session_state.get(f"caption-{kept.id}", kept.drawing.caption))


def buttons(i: int, kept: TrayFigure, drawing: Drawing) -> None:
    """Offer the files of a figure, and buttons to move or remove it."""
    content: dict[str, tuple[str, Callable[[], bytes]]] = {
        "SVG": ("svg", lambda: to_svg(drawing)),
        "PDF": ("pdf", lambda: to_pdf(drawing)),
        "LaTeX": ("tex", lambda: to_tex(drawing).encode()),
        **({"LaTeX boxes": ("boxes.tex", lambda: to_tex(drawing, is_native=True).encode())} if drawing.latex else {}),
    }
    with st.container(horizontal=True, gap="small"):
        for label, (suffix, made) in content.items():
            st.download_button(label, made, file_name=f"{drawing.name}.{suffix}", key=f"{kept.id}-{suffix}", on_click="ignore")
        st.button("Up", key=f"{kept.id}-up", disabled=i == 0, on_click=move, args=(i,))
        st.button("Remove", key=f"{kept.id}-remove", on_click=remove, args=(i,))


def remove(i: int) -> None:
    """Remove a figure from the tray."""
    del tray()[i]


def move(i: int) -> None:
    """Swap a figure with the one before it."""
    kept = tray()
    kept[i - 1 : i + 1] = kept[i - 1 : i + 1][::-1]
