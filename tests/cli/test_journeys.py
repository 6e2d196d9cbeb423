"""Three whole journeys: from the tables of a user to a report, labels, reasons and a comparison."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cli_samples import Command, refused


def write(path: str, rows: Sequence[Sequence[object]], separator: str = ",") -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=separator).writerows(rows)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_portfolio: None) -> None:
    """Change to an empty folder, and shorten the automatic choice."""
    monkeypatch.chdir(tmp_path)


def in_page(folder: str, *titles: str) -> list[int]:
    """Return where the titles of sections are in a report, -1 where they are missing."""
    page = Path(folder, "report.html").read_text(encoding="utf-8")
    return [page.find(f">{title}") for title in titles]


def test_fraud(command: Command) -> None:
    """A rare class, a split by time, a threshold, labels through a pipe."""
    rng = np.random.default_rng(0)
    fraud = rng.random(400) < 0.1
    start = datetime(2024, 1, 1)
    opened = [start + timedelta(days=i / 2) for i in range(400)]
    label = ["" if i >= 380 else "fraud" if bad else "fine" for i, bad in enumerate(fraud)]
    balance = np.round(rng.normal(size=400) + 1.5 * fraud, 2)
    columns = ([f"A{i}" for i in range(400)], [moment.isoformat() for moment in opened], balance, label)
    write("accounts.csv", [("account", "opened", "balance", "status"), *zip(*columns, strict=True)])
    payments = []
    for payer, payee in rng.integers(400, size=(900, 2)).tolist():
        paid = opened[max(payer, payee)] + timedelta(days=int(rng.integers(20)))
        payments.append([f"A{payer}", f"A{payee}", f"{paid:%d.%m.%Y}", f"€ {rng.integers(1, 99)}"])
    write("payments.csv", [["payer", "payee", "paid", "amount"], *payments])

    tables = ("--nodes", "accounts.csv", "--edges", "payments.csv", "--label", "status", "--directed-edges")
    by_time = ("--time-column", "opened", "--edge-time-column", "paid", "--weight-column", "amount")
    done = command("train", *tables, *by_time, "--epochs", 10, "--threshold", "recall=0.7", "--out", "X")
    assert done.code == 0, done.err
    assert "average-precision" in done.out
    board = json.loads(Path("X/leaderboard.json").read_text())
    assert (board["protocol"], board["metric"]) == ("time", "average-precision")
    chosen = json.loads(Path("X/choice.json").read_text())["folder"]
    threshold = json.loads(Path("X/models", chosen, "decision.json").read_text())["threshold"]
    places = in_page("X", "Leaderboard", "Precision and recall", "Confusion matrix", "Compared with", "Over time")
    assert -1 not in places
    assert places == sorted(places)

    piped = command("predict", "X", "--out", "-", "--format", "jsonl")
    rows = [json.loads(line) for line in piped.out.splitlines()]
    assert [row["account"] for row in rows] == [f"A{i}" for i in range(380, 400)]
    for row in rows:
        assert row["status"] == ("fraud" if row["probability of fraud"] >= threshold else "fine")
    assert command("predict", "X", "--out", "labels.parquet").code == 0
    refused(command("predict", "X", "--out", "labels.parquet"), "exists already", "--force")
    assert pl.read_parquet("labels.parquet")["status"].to_list() == [row["status"] for row in rows]

    assert command("explain", "X", "A390", "A391", "--out", "reasons.csv").code == 0
    assert pl.read_csv("reasons.csv")["node"].to_list() == ["A390", "A391"]


def test_web(command: Command) -> None:
    """Text, the direction of links, five classes, and two trainings compared."""
    rng = np.random.default_rng(1)
    words = ["goal team match", "paint stage music", "vote court law", "atom cell star", "rice soup bread"]
    topics = rng.integers(5, size=250)
    filler = ["the", "of", "and", "page", "today", "more", "about", "with"]
    rows = []
    for page, topic in enumerate(topics):
        text = [*rng.choice(words[topic].split(), 1), *rng.choice(filler, 6)]
        rows.append([f"/{page}", " ".join(rng.permutation(text)), f"topic {topic}" if page % 5 else ""])
    write("pages.tsv", [["url", "text", "topic"], *rows], "\t")
    links = []
    for page in range(250):  # a page of a topic links to pages of the next one
        following = np.flatnonzero(topics == (topics[page] + 1) % 5)
        links += [[f"/{page}", f"/{other}"] for other in rng.choice(following, 3)]
    write("links.tsv", [["from", "to"], *links], "\t")

    tables = ("--nodes", "pages.tsv", "--edges", "links.tsv", "--label", "topic", "--directed-edges", "--runs", 2)
    for model in ("gcn", "dirgcn"):
        done = command("train", *tables, "--model", model, "--epochs", 40, "--metric", "macro-f1", "--out", model)
        assert done.code == 0, done.err
        assert -1 not in in_page(model, "Compared with", "Confusion matrix", "Your table")
        assert in_page(model, "Precision and recall", "Labels by threshold", "Leaderboard") == [-1, -1, -1]
    gcn, dirgcn = (json.loads(Path(name, "summary.json").read_text())["runs"] for name in ("gcn", "dirgcn"))
    assert np.mean([run["test"]["macro-f1"] for run in dirgcn]) > np.mean([run["test"]["macro-f1"] for run in gcn])

    done = command("report", "gcn", "dirgcn", "--metric", "accuracy", "--out", "both.html")
    assert done.code == 0, done.err
    assert "dirgcn" in Path("both.html").read_text()
    assert command("predict", "dirgcn", "--out", "labels.csv").code == 0
    table = pl.read_csv("labels.csv")
    shares = table.select([f"probability of topic {topic}" for topic in range(5)]).to_numpy()
    np.testing.assert_allclose(shares.sum(1), 1, atol=1e-6)
    assert table["topic"].to_list() == [f"topic {one}" for one in shares.argmax(1)]
    refused(command("train", *tables, "--threshold", "0.5", "--out", "Z"), "needs two classes", "--cost", True)


def test_messy(command: Command) -> None:
    """Everything odd at once: another country's marks, gaps, spellings, lists, a leak, loops, strangers, types."""
    rng = np.random.default_rng(2)
    bad = rng.random(240) < 0.3
    rows: list[list[object]] = []
    for number, late in enumerate(bad.tolist()):
        amount = f"{rng.lognormal(8) * (1 + late):,.2f}".translate(str.maketrans(",.", ".,")) + " €"
        day = datetime(2020, 1, 1) + timedelta(days=int(rng.integers(900)))
        label = ("Spät" if number % 2 else " spät ") if late else ("pünktlich" if number % 3 else "PÜNKTLICH")
        rows.append(
            [
                f"K {number}",
                "-" if number % 11 == 0 else amount,
                f"{rng.integers(1, 99)} %",
                f"{day:%d/%m/%Y}",
                [" Pro", "pro", "PRO", "frei"][number % 4],
                ";".join(rng.permutation(["web", "app", "shop"])[: number % 4]),
                "mahnung" if late else "dank",
                "" if number % 7 == 0 else "?" if number % 13 == 0 else label,
                "",
            ]
        )
    write("kunden.csv", [["Nr", "Umsatz", "Rabatt", "seit", "Tarif", "Kanäle", "Brief", "Zahlung", ""], *rows], ";")
    Path("kunden.csv").write_bytes(b"\xef\xbb\xbf" + Path("kunden.csv").read_bytes() + b"\r\n\r\n")
    calls = [[f"K {a}", f" K {b} ", ["Anruf", "anruf ", "Post"][a % 3]] for a, b in rng.integers(240, size=(500, 2))]
    write("anrufe.csv", [["von", "an", "Art"], *calls, *calls[:9], ["K 1", "K 1", "Post"], ["K 2", "K 999", ""]], ";")

    tables = ("--nodes", "kunden.csv", "--edges", "anrufe.csv", "--label", "Zahlung", "--edge-type-column", "Art")
    model = ("--model", "trees", "--runs", 2)
    refused(command("train", *tables, *model, "--out", "X"), "'K 999'", "--unknown-nodes drop", True)
    assert not Path("X").exists()
    warned = command("train", *tables, *model, "--unknown-nodes", "drop", "--out", "X")
    assert warned.code == 0
    assert "--drop Brief" in warned.err
    done = command("train", *tables, *model, "--unknown-nodes", "drop", "--drop-leaks", "--out", "Y")
    assert done.code == 0, done.err
    for words in ("decimal commas", "day/month/year", "merged", "lists separated by ';'", "it tells the label"):
        assert words in done.err, words
    assert command("predict", "Y", "--out", "labels.jsonl").code == 0
    labels = [json.loads(line) for line in Path("labels.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(labels) == len([row for row in rows if row[7] in ("", "?")])
    assert {row["Zahlung"].lower() for row in labels} <= {"pünktlich", "spät"}
    assert len([name for name in labels[0] if name.startswith("probability of ")]) == 2  # spellings were merged

    new = ["Nr", "Umsatz", "Rabatt", "seit", "Tarif", "Kanäle"], ["N 1", "1.000,50 €", "", "31/12/2022", "PRO ", "fax"]
    write("neu.csv", new, ";")
    write("neu-anrufe.csv", [["von", "an", "Art"], ["N 1", "K 3", "Fax"]], ";")
    done = command("predict", "Y", "--nodes", "neu.csv", "--edges", "neu-anrufe.csv", "--out", "neu.jsonl")
    assert done.code == 0, done.err
    assert json.loads(Path("neu.jsonl").read_text(encoding="utf-8"))["Nr"] == "N 1"
    assert command("explain", "Y", "K 5").code == 0
