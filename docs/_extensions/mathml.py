"""Sphinx extension that renders formulas as MathML, which browsers show without scripts and without network."""

import html

from docutils.nodes import math, math_block
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


def visit_inline(translator: HTML5Translator, node: math) -> None:
    """Write a formula within a sentence."""
    translator.body.append(convert(node.astext()))


def visit_block(translator: HTML5Translator, node: math_block) -> None:
    """Write a formula of its own line."""
    formula = html.unescape(convert(node.astext(), display="block"))
    translator.body.append(f'<div class="math" style="overflow-x: auto">{formula}</div>')


def depart(translator: HTML5Translator, node: math | math_block) -> None:
    """Do nothing: a formula has no children that are written."""


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer `mathml`."""
    app.add_html_math_renderer("mathml", (visit_inline, depart), (visit_block, depart))
    return {"parallel_read_safe": True}
