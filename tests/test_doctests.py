"""The examples in the docstrings of the package run and print what they say."""

import doctest
from importlib import import_module
from pathlib import Path

from each_of import each_of

SOURCE = Path(__file__).parent.parent / "src"
MODULES = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    for path in sorted((SOURCE / "nlgnn").rglob("*.py"))
    if ">>> " in path.read_text()
]


@each_of("module", MODULES)
def test_examples(module: str) -> None:
    done = doctest.testmod(import_module(module.removesuffix(".__init__")))
    assert done.attempted > 0
    assert done.failed == 0
