"""Cells: names, settings, older versions, and what may be paired."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sample_cells import OLD, write, write_framework

from each_of import each_of
from nlgnn.errors import DataError, OptionError
from nlgnn.paper import cell as cells
from nlgnn.paper.cell import Cell, Measured, Schedule, caption, choose_cells, difference, read_cells
from nlgnn.paper.plans import framework_cell, system_cell

TEXAS = framework_cell("texas", "nlmlp")


def read(cell: Cell, folder: Path) -> Measured:
    return read_cells([cell], folder)[cell.name]


def test_names_of_files() -> None:
    assert TEXAS.name == "texas-nlmlp-random-60"
    assert framework_cell("texas", "nlmlp", control="kernel 1", again=1).name == "texas-nlmlp-kernel-1-seed-2-random-60"
    assert framework_cell("snap-patents", "nlgcn").name == "snap-patents-nlgcn-linkx"
    assert system_cell("cora", "h2gcn").name == "cora-h2gcn"


def test_open_cells_and_those_without_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "files_are_here", lambda dataset: dataset != "snap-patents")
    assert read(TEXAS, tmp_path).figure == "…"
    assert read(framework_cell("snap-patents", "nlgcn"), tmp_path).figure == "files not here"
    assert read(framework_cell("ogbn-arxiv", "nlgcn"), tmp_path).figure == "…"


def test_figures_and_marks(tmp_path: Path) -> None:
    write(TEXAS, tmp_path, [70.0, None, 80.0], [71.0, 60.0, 81.0])
    one = read(TEXAS, tmp_path)
    assert one.figure == "75.0 ± 7.1 (1 of 3 runs failed)"
    assert str(one.validation) == "70.7 ± 10.5"
    gat = framework_cell("texas", "gat")
    write(gat, tmp_path, [70.0, 80.0], **OLD)
    assert read(gat, tmp_path).figure == "75.0 ± 7.1*†"
    assert read(gat, tmp_path).seconds == 30


@each_of("text", ["{", "[]", "{}", '{"model": {}, "recipe": 1, "versions": {"nlgnn": "0.2.0"}}'])
def test_a_damaged_cell(tmp_path: Path, text: str) -> None:
    (tmp_path / "framework").mkdir()
    (tmp_path / "framework" / f"{TEXAS.name}.json").write_text(text)
    with pytest.raises(DataError, match=r"texas-nlmlp-random-60\.json cannot be read.*\nRemove"):
        read(TEXAS, tmp_path)


def test_a_cell_of_other_settings(tmp_path: Path) -> None:
    write(TEXAS, tmp_path, [70.0], recipe={"lr": 0.7})
    with pytest.raises(DataError, match=r"was measured with lr=0\.7; now it is 0\.05"):
        read(TEXAS, tmp_path)
    write(TEXAS, tmp_path, [70.0], shortened={"splits": 2})
    with pytest.raises(DataError, match=r"was measured with shortened=.*\n.*--quick"):
        read(TEXAS, tmp_path)
    write(TEXAS, tmp_path, [70.0])
    with pytest.raises(DataError, match="was measured with candidates="):
        read(replace(TEXAS, candidates=({"lr": 1.0},)), tmp_path)


def test_settings_of_older_cells_are_not_checked(tmp_path: Path) -> None:
    """Options have been renamed since."""
    write(TEXAS, tmp_path, [70.0], recipe={"lr": 0.7}, options={"metric_dim": 3}, **OLD)
    assert read(TEXAS, tmp_path).older
    write(TEXAS, tmp_path, [70.0], versions={"nlgnn": "0.10.1"})
    assert not read(TEXAS, tmp_path).older


def test_differences_are_paired_over_splits(tmp_path: Path) -> None:
    """The mean over seeds first; a seed that one of the two lacks is not counted."""
    tests = {("nlmlp", 0): [70.0, 80.0], ("mlp", 0): [70.0, 78.0], ("nlmlp", 1): [72.0, 84.0], ("mlp", 1): [70.0, 80.0]}
    for (system, again), values in tests.items():
        write_framework(tmp_path, f"texas-{system}", values, again=again)
    write_framework(tmp_path, "texas-mlp", [0.0, 0.0], again=2)
    sides = [[read(framework_cell("texas", system, again=again), tmp_path) for again in range(3)]
             for system in ("nlmlp", "mlp")]  # fmt: skip
    found = difference(zip(*sides, strict=True))
    assert found is not None
    assert (found.interval.mean, found.seeds, found.older) == (2.0, 2, False)
    assert str(found).startswith("+2.0 [")
    assert str(found).endswith("] × 2")


def test_older_cells_are_never_paired_with_newer_ones(tmp_path: Path) -> None:
    write_framework(tmp_path, "texas-nlmlp", [70.0, 80.0])
    write_framework(tmp_path, "texas-mlp", [69.0, 78.0], **OLD)
    one, other = (read(framework_cell("texas", system), tmp_path) for system in ("nlmlp", "mlp"))
    assert difference([(one, other)]) is None
    assert not one.matches(other)
    write_framework(tmp_path, "texas-nlmlp", [70.0, 80.0], **OLD)
    one = read(framework_cell("texas", "nlmlp"), tmp_path)
    assert str(difference([(one, other)])).endswith("†")


def test_pairs_of_older_cells_are_not_mixed_with_newer_pairs(tmp_path: Path) -> None:
    for again, version in ((0, "0.2.0"), (1, "0.1.0")):
        for system, gain in (("nlmlp", 2.0 + 10 * again), ("mlp", 0.0)):
            write_framework(tmp_path, f"texas-{system}", [70.0 + gain, 81.0 + gain], again=again,
                            versions={"nlgnn": version})  # fmt: skip
    pairs = [tuple(read(framework_cell("texas", system, again=again), tmp_path) for system in ("nlmlp", "mlp"))
             for again in range(2)]  # fmt: skip
    found = difference(pairs)  # type: ignore[arg-type]
    assert found is not None
    assert (round(found.interval.mean, 6), found.seeds, found.older) == (2.0, 1, False)


def test_other_splits_are_not_paired(tmp_path: Path) -> None:
    write_framework(tmp_path, "texas-nlmlp", [70.0, 80.0])
    write_framework(tmp_path, "texas-nlmlp", [70.0, 81.0], protocol="geom-gcn")
    one, other = (read(framework_cell("texas", "nlmlp", protocol), tmp_path) for protocol in ("random-60", "geom-gcn"))
    assert difference([(one, other)]) is None


def test_choosing_cells() -> None:
    some = [system_cell(dataset, system) for system in ("gcn", "h2gcn") for dataset in ("texas", "cora")]
    assert choose_cells(some, [], []) == some
    assert choose_cells(some, ["h2gcn"], []) == some[2:]
    assert choose_cells(some, ["gcn", "h2gcn"], ["cora"]) == [some[1], some[3]]
    assert choose_cells(some, [], [], [some[2].name]) == [some[2]]
    with pytest.raises(OptionError, match=r"no model 'h2gnc'.*\nDid you mean 'h2gcn'\?"):
        choose_cells(some, ["gcn", "h2gnc"], [])
    with pytest.raises(OptionError, match=r"no dataset 'texsa'.*\nDid you mean 'texas'\?"):
        choose_cells(some, [], ["texsa"])


def test_quick() -> None:
    quick = framework_cell("texas", "nlgat", control="kernel 1").quick()
    assert quick.schedule == Schedule({"epochs": 3}, splits=2, search_splits=1)
    assert quick.main is not None
    assert quick.main.schedule == quick.schedule
    assert len(quick.candidates) == 2
    assert system_cell("texas", "cpgcn").quick().schedule.options == {"epochs": 3, "pretrain_epochs": 2}


def test_captions_explain_the_marks_that_occur() -> None:
    assert caption("homophily", [{"figure": "1.0 ± 0.1"}]).endswith("without numbers.")
    assert "† measured by a version before 0.2.0" in caption("homophily", [{"figure": "1.0†"}])


@pytest.mark.parametrize(
    ("schedule", "marks"),
    [
        (Schedule(), ""),
        (Schedule({"stopping": "patience", "patience": 500}), ""),
        (Schedule({"epochs": 500}), "*"),
        (Schedule(search_splits=1), "*"),
        (Schedule(splits=5), "*"),
    ],
)
def test_early_stopping_alone_is_not_marked(schedule: Schedule, marks: str, tmp_path: Path) -> None:
    cell = replace(framework_cell("texas", "mlp"), schedule=schedule)
    write(cell, tmp_path, [70.0, 71.0])
    assert read_cells([cell], tmp_path)[cell.name].marks == marks
