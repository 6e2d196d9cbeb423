"""The whole command and the plain script do the same runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks import plain_nlgcn, whole_command
from benchmarks.peers import PYG_SPARSE, edge_inputs
from benchmarks.plain_nlgcn import PlainNLGCN, csr, train
from benchmarks.steps import QUICK
from benchmarks.whole_command import measure_command, write_problem
from nlgnn import Recipe, fit, load_graph, make_splits
from nlgnn.models.build import configure

GRAPH = load_graph("mushroom-body")
SPLITS = make_splits(GRAPH, "random-60", 2)


def test_script_trains_as_fit() -> None:
    """From the same weights, the same epochs are chosen, with the same test accuracy."""
    factory, recipe = configure("nlgcn", GRAPH, epochs=12, stopping="never", lr=0.05, weight_decay=0.0, dropout=0.0)
    runs = fit(lambda: factory().double(), GRAPH, SPLITS, recipe, progress=False)
    x, edge_index = (part.double() if part.is_floating_point() else part for part in edge_inputs(GRAPH))
    x = x / x.sum(1, keepdim=True).clamp(min=1e-12)
    x = x.to_sparse_csr()
    edges = csr(edge_index, len(x), torch.float64)
    for run, split in zip(runs, SPLITS, strict=True):
        torch.manual_seed(run.seed)
        ours = factory()
        peer = PlainNLGCN(x.shape[1], 48, GRAPH.num_classes, score_bias=ours.order.score.bias is not None).double()
        peer.load_state_dict(peer.translate(ours.double().state_dict()))
        parts = tuple(torch.from_numpy(part.nonzero()[0]) for part in (split.train, split.val, split.test))
        epoch, accuracy = train(peer, x, edges, torch.tensor(GRAPH.y), parts, 12)  # type: ignore[arg-type]
        assert epoch == run.chosen_epoch
        assert 100 * accuracy == pytest.approx(run.test["accuracy"], abs=1e-4)
    assert Recipe().metric == recipe.metric == "accuracy"


def test_script_reads_every_split(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_problem(tmp_path / "graph.npz", GRAPH, SPLITS)
    plain_nlgcn.main(str(tmp_path / "graph.npz"), 2)
    assert 0 < float(capsys.readouterr().out) < 100


@pytest.mark.parametrize("report", [True, False])
def test_both_programs_are_timed(report: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    programs: list[list[str]] = []

    def run(arguments: list[str]) -> str:
        programs.append(arguments)
        if "--out" in arguments and report:
            folder = Path(arguments[arguments.index("--out") + 1])
            folder.mkdir()
            (folder / "report.html").touch()
        return ""

    monkeypatch.setattr(whole_command, "run_program", run)
    result = measure_command("mushroom-body", QUICK, report)
    assert list(result["ratios"]) == [PYG_SPARSE]
    ours, peer = programs[:2]
    assert ours[0] == ("-m" if report else "-c")
    assert "--runs 2 --epochs 5 --stopping never" in " ".join(ours)
    assert peer[:2] == ["-m", "benchmarks.plain_nlgcn"]
    assert peer[-1] == "5"
