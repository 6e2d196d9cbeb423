"""Every table that `nlgnn reproduce` makes, by name, in the order of the page of results."""

from __future__ import annotations

from collections.abc import Sequence

from nlgnn.errors import OptionError, nearest
from nlgnn.experiments.ablation import ABLATION_TABLE
from nlgnn.experiments.accuracy import ALL_RESULTS, CATEGORIES, CPGCN, FIRST_CATEGORY, SECOND_CATEGORY
from nlgnn.experiments.beside import CONTROL_TABLE, HOMOPHILY_TABLE
from nlgnn.experiments.efficiency import EFFICIENCY_TABLE
from nlgnn.experiments.order_page import ORDER_TABLE
from nlgnn.experiments.paper_datasets import DATASETS_TABLE
from nlgnn.experiments.results_page import RESULTS
from nlgnn.experiments.sequences import SEQUENCE_TABLE
from nlgnn.experiments.systems import system_cells
from nlgnn.experiments.systems_page import system_sections
from nlgnn.experiments.tables import ResultTable
from nlgnn.experiments.verdicts import VERDICT_TABLE

TABLES: dict[str, ResultTable] = {
    "results": RESULTS,
    "datasets": DATASETS_TABLE,
    "categories": CATEGORIES,
    "verdicts": VERDICT_TABLE,
    "first-category": FIRST_CATEGORY,
    "second-category": SECOND_CATEGORY,
    "all": ALL_RESULTS,
    "homophily": HOMOPHILY_TABLE,
    "sequence": SEQUENCE_TABLE,
    "efficiency": EFFICIENCY_TABLE,
    "cpgcn": CPGCN,
    "controls": CONTROL_TABLE,
    "ablation": ABLATION_TABLE,
    "order": ORDER_TABLE,
    "systems": ResultTable(lambda protocol: system_cells(), system_sections),
}


TITLES = {"systems": "The systems compared", "results": "Results", "order": "An order that learns"}


def get_table(name: str) -> ResultTable:
    if name not in TABLES:
        raise OptionError(f"there is no table {name!r}.", nearest(name, list(TABLES)))
    return TABLES[name]


def page_title(names: Sequence[str]) -> str:
    return TITLES.get(names[0], f"Table {names[0]}") if len(names) == 1 else "The paper's experiments, repeated"
