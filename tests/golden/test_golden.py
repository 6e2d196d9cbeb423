"""Figures and public names are those of the golden files, which `record.py` writes."""

from __future__ import annotations

import json
import pkgutil

import pytest
from record import FIGURES, NAMES, close_to, entry_names, measure, public_names

from each_of import each_of

RECORDED = json.loads(FIGURES.read_text())


@pytest.mark.parametrize("model", dict.fromkeys(entry.split("/")[0] for entry in RECORDED))
@each_of("graph", dict.fromkeys(entry.split("/")[1] for entry in RECORDED))
def test_figures(model: str, graph: str) -> None:
    entry = f"{model}/{graph}"
    assert measure(entry) == close_to(RECORDED[entry])


@pytest.mark.usefixtures("as_users_run_it")
def test_every_model_is_recorded() -> None:
    assert set(entry_names()) == set(RECORDED)


@pytest.mark.usefixtures("as_users_run_it")
def test_public_names() -> None:
    names = NAMES.read_text().splitlines()
    assert public_names() == names
    for name in names:
        pkgutil.resolve_name(name)
