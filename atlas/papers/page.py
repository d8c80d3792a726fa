"""index.html: every item of a paper on one page that needs no network; tokens appear as text only."""

import base64
import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from atlas.export.html import html_table
from atlas.export.visible import visible_line
from atlas.papers.captions import comparison, cut_note, printed_table
from atlas.papers.items import Paper, RenderedItem

ARTICLE = re.compile(r'<article id="(\w+)">(.*?)</article>', re.DOTALL)
"""Pattern of one paper's article. In its text, every < is escaped."""

DRAWN_WIDTH = {234: 468, 486: 816}
"""Width of a figure in pt → its width on the page in px."""


def page(paper: Paper, made: Sequence[RenderedItem], atlas_name: str, setting: str, out: Path, former: str = "") -> str:
    """Build the whole page, in UTF-8. Links are relative to the folder `out`. former: the page already there, whose articles on other papers are kept."""
    style = (files("atlas.papers") / "page.css").read_text(encoding="utf-8")
    head = f'<meta charset="utf-8">\n<meta name="viewport" content="width=device-width">\n<title>Figures and tables</title>\n<style>\n{style}</style>'
    articles = {**dict(ARTICLE.findall(former)), paper.name: article(paper, made, atlas_name, setting, out)}
    body = [f'<article id="{name}">{inside}</article>' for name, inside in sorted(articles.items())]
    return "\n".join(["<!DOCTYPE html>", f'<html lang="en">\n<head>\n{head}\n</head>\n<body>', *body, "</body>\n</html>\n"])


def article(paper: Paper, made: Sequence[RenderedItem], atlas_name: str, setting: str, out: Path) -> str:
    """Build the article on one paper."""
    head = [f"<h1>{text(paper.citation)}</h1>", f'<p class="dim">From {text(atlas_name)}. {text(setting)}</p>', f'<p class="dim">{text(paper.note)}</p>']
    return "\n".join(["", *head, contents(made), *(section(paper, m, out) for m in made), ""])


def text(plain: str) -> str:
    """Escape text, with controls and direction marks visible."""
    return escape(visible_line(plain))


def contents(made: Sequence[RenderedItem]) -> str:
    lines = [f'<li><a href="#{m.item.name}">{text(m.item.place)}</a> {text(m.item.heading)}{"" if m.frame is not None else " (not here)"}</li>' for m in made]
    return f'<nav aria-label="Items"><ul class="items">\n{"".join(lines)}\n</ul></nav>'


def section(paper: Paper, m: RenderedItem, out: Path) -> str:
    head = f'<section id="{m.item.name}">\n<h2>{text(m.item.heading)}</h2>\n<p class="dim place">{text(m.item.place)} · {m.item.name}</p>'
    inside = [f'<p class="none">{text(m.reason or "")}</p>'] if m.frame is None else item_parts(paper, m, out)
    return "\n".join([head, *inside, "</section>"])


def item_parts(paper: Paper, m: RenderedItem, out: Path) -> list[str]:
    assert m.frame is not None
    facts = [("n", m.item.n(m.frame)), ("Left out", m.item.exclusions)]
    facts += [(("Paper", "Here")[i], line) for i, line in enumerate(comparison(m.frame, m.item, paper))]
    rows = "".join(f"<dt>{name}</dt><dd>{text(value)}</dd>" for name, value in facts)
    table = f'<div class="scroll" tabindex="0" role="region" aria-label="Table">\n{html_table(printed_table(m.frame, m.item))}\n</div>'
    sql = f"<details><summary>{'SQL' if m.item.compute is None else 'Source'}</summary><pre>{escape(m.item.sql)}</pre></details>"
    cut = f'<p class="dim">{cut_note(m.frame)} CSV and Parquet hold all.</p>' if cut_note(m.frame) else ""
    return [figure(m), f"<dl>{rows}</dl>", table, cut, links(m, out), sql]


def figure(m: RenderedItem) -> str:
    """Embed the drawing in the page as a separate image, so that the ids of two drawings cannot clash; without a drawing, return the caption alone."""
    if "svg" not in m.files:
        return f"<p>{text(m.caption)}</p>"
    svg = m.files["svg"].read_bytes()
    image = base64.b64encode(svg).decode()
    width = DRAWN_WIDTH[int(svg.split(b'width="', 1)[1].split(b'"', 1)[0])]
    drawn = f'<img src="data:image/svg+xml;base64,{image}" width="{width}" alt="{text(m.item.heading)}; the table below has its numbers">'
    return f"<figure>{drawn}\n<figcaption>{text(m.caption)}</figcaption></figure>"


def links(m: RenderedItem, out: Path) -> str:
    found = [f'<a href="{path.relative_to(out).as_posix()}">{suffix}</a>' for suffix, path in m.files.items()]
    where = next(iter(m.files.values()))
    found.append(f'<a href="{where.relative_to(out).as_posix()}.provenance.json">provenance</a>')
    return f"<p>Files: {' · '.join(found)}</p>"
