"""Equations as pictures that matplotlib draws while the site is built: a page needs no script from elsewhere."""

from __future__ import annotations

import html
import io
import re
import zlib
from functools import cache
from typing import Any

import matplotlib as mpl
from docutils import nodes
from matplotlib.font_manager import FontProperties
from matplotlib.mathtext import MathTextParser, math_to_image
from sphinx.application import Sphinx

POINTS = 12.0
EM = 16.0  # pixels of the text around, which POINTS are to match


@cache
def picture(latex: str, display: bool) -> str:
    """An inline SVG of one equation, in the colour of the text around it."""
    text = f"${' '.join(latex.split())}$"
    font = FontProperties(size=POINTS * (1.15 if display else 1.0), math_fontfamily="cm")
    with mpl.rc_context({"savefig.transparent": True, "svg.fonttype": "path", "svg.hashsalt": latex}):
        _, _, depth, *_ = MathTextParser("path").parse(text, dpi=72, prop=font)
        stream = io.StringIO()
        math_to_image(text, stream, prop=font, dpi=72, format="svg", color="black")
    drawing = stream.getvalue()[stream.getvalue().index("<svg") :]
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawing)
    if box is None:
        raise ValueError(f"matplotlib drew nothing for {latex}")
    width, height = float(box[1]), float(box[2])
    scale = EM / POINTS / EM  # points to em
    style = f"width:{width * scale:.3f}em;height:{height * scale:.3f}em;vertical-align:{-depth * scale:.3f}em"
    inside = drawing[drawing.index(">") + 1 :].strip()
    inside = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", inside, flags=re.DOTALL)
    inside = re.sub(r"fill: #000000|stroke: #000000", lambda found: found[0].split(":")[0] + ": currentColor", inside)
    name = zlib.crc32(f"{latex} {display}".encode())  # the same in every build
    inside = re.sub(r'(id="|href="#)', rf"\g<1>m{name:x}-", inside)
    return (
        f'<svg class="equation" role="img" aria-label="{html.escape(latex)}" viewBox="0 0 {width} {height}" '
        f'style="{style}" xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">{inside}'
    )


def visit_inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(picture(node.astext(), False))
    raise nodes.SkipNode


def visit_block(translator: Any, node: nodes.math_block) -> None:
    lines = "".join(f"<div>{picture(line, True)}</div>" for line in node.astext().split(r"\\"))
    translator.body.append(f'<div class="equations">{lines}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("matplotlib", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
