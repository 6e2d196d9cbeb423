"""Sphinx extension that renders formulas as MathML, which browsers show without scripts and without network."""

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


def aligned(formula: str) -> str:
    """Return a formula of several lines, aligned at `&`, in MathML."""
    rows = []
    for line in formula.split(r"\\"):
        cells = [convert(cell).partition(">")[2].removesuffix("</math>") for cell in line.split("&")]
        sides = ("right", "left") * len(cells)
        columns = (
            f'<mtd style="text-align: {side}; padding: 0.3em 0">{cell}</mtd>'
            for side, cell in zip(sides, cells, strict=False)
        )
        rows.append(f"<mtr>{''.join(columns)}</mtr>")
    return f'<math display="block" displaystyle="true"><mtable>{"".join(rows)}</mtable></math>'


def visit_inline(translator: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within a sentence."""
    translator.body.append(convert(node.astext()))
    raise nodes.SkipNode


def visit_block(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on lines of its own."""
    formula = node.astext()
    written = aligned(formula) if r"\\" in formula else convert(formula, display="block")
    translator.body.append(f'<div class="math">{written}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer `mathml`."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True}
