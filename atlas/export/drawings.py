"""Drawings for papers: an SVG with its caption and provenance, as SVG, PDF and LaTeX, alone or several in one archive."""

import io
import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from atlas.export.formats import comments
from atlas.export.latex import tex
from atlas.export.lettering import xml
from atlas.export.scripts import script_preamble

NEEDS = r"needs \usepackage{graphicx}, \usepackage{xcolor} and \usepackage[T1]{fontenc}"


@dataclass(frozen=True)
class Drawing:
    """One drawing. name: name of its files. caption: plain text below it. latex: code that draws the same without the PDF; '' if there is none."""

    name: str
    caption: str
    svg: str
    latex: str = ""
    provenance: Mapping[str, object] = field(default_factory=dict)


def to_svg(drawing: Drawing) -> bytes:
    """Put the drawing's caption and provenance inside its SVG."""
    told = json.dumps(dict(drawing.provenance), ensure_ascii=False)
    inside = f"<desc>{xml(drawing.caption)}</desc><metadata>{xml(told)}</metadata>"
    return re.sub(r"(<svg\b[^>]*>)", lambda found: found[1] + inside, drawing.svg, count=1).encode()


def to_pdf(drawing: Drawing) -> bytes:
    """Render the drawing as a PDF of one page of its size, with the fonts it uses."""
    import vl_convert as vlc

    return vlc.svg_to_pdf(drawing.svg)


def to_tex(drawing: Drawing, *, is_native: bool = False) -> str:
    """Write a figure environment, after comments with its provenance: it includes the PDF, or, if `is_native`, draws coloured boxes if the drawing has them."""
    told = [f"% {key}: {' '.join(value.split())}" for key, value in comments(dict(drawing.provenance)).items()]
    body = drawing.latex if is_native and drawing.latex else r"\centering" + f"\n\\includegraphics[width=\\linewidth]{{{drawing.name}.pdf}}"
    # a line break ends a paragraph, which no caption may have
    end = [rf"\caption{{{tex(' '.join(drawing.caption.split()))}}}", rf"\label{{fig:{drawing.name}}}", r"\end{figure}", ""]
    fragment = "\n".join([r"\begin{figure}[t]", body, *end])
    return "\n".join([f"% {NEEDS}", *told, *script_preamble(fragment), fragment])


def name_drawings(drawings: Sequence[Drawing]) -> list[Drawing]:
    """Give each drawing a unique name of letters, digits and hyphens, which files and labels can have."""
    found: list[Drawing] = []
    for drawing in drawings:
        plain = re.sub(r"[^A-Za-z0-9]+", "-", drawing.name).strip("-")[:60] or "figure"
        taken = {d.name for d in found}
        name = next(n for n in (plain, *(f"{plain}-{i}" for i in range(2, len(drawings) + 2))) if n not in taken)
        found.append(Drawing(name, drawing.caption, drawing.svg, drawing.latex, drawing.provenance))
    return found


def archive(drawings: Sequence[Drawing]) -> bytes:
    """Pack a zip: figures.tex, which includes the PDFs beside it, and for each drawing its SVG, PDF, provenance, and LaTeX boxes if it has them."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as folder:
        each = name_drawings(drawings)
        add_to_archive(folder, "figures.tex", "\n".join(map(to_tex, each)).encode())
        for drawing in each:
            add_to_archive(folder, f"{drawing.name}.svg", to_svg(drawing))
            add_to_archive(folder, f"{drawing.name}.pdf", to_pdf(drawing))
            add_to_archive(folder, f"{drawing.name}.provenance.json", json.dumps(dict(drawing.provenance), ensure_ascii=False, indent=2).encode())
            if drawing.latex:
                add_to_archive(folder, f"{drawing.name}.boxes.tex", to_tex(drawing, is_native=True).encode())
    return out.getvalue()


def add_to_archive(folder: zipfile.ZipFile, name: str, content: bytes) -> None:
    # the time of the archive is that of 1980 where none is given
    when = datetime.now(UTC).timetuple()[:6]
    folder.writestr(zipfile.ZipInfo(name, when), content, zipfile.ZIP_DEFLATED)
