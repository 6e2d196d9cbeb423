"""Random small inputs of every format, changed in structure. Most stay valid and reach the code behind parsers."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

Rows = list[dict[str, Any]]
ODD_CELLS = [
    *(
        "",
        " ",
        "NA",
        "nan",
        "null",
        "-",
        "0",
        "-0",
        "1e308",
        "1e-320",
        "1e999",
        "-inf",
        "9" * 30,
        "0x1F",
        "1_000",
        "1,5",
    ),
    *("1.234.567,8", "$5", "12 %", "TRUE", "no", "2020-02-30", "31/12/1999", "1970-01-01T00:00:00Z", "99999-01-01"),
    *(
        "1,5",
        "=1+1",
        "<script>",
        "__proto__",
        "constructor",
        "é",
        "日本",
        "\u202eabc",
        "a\nb",
        'say "x"',
        "a;b",
        "x" * 5000,
    ),
]
ODD_NUMBERS = [0, -1, 1, 2**31, -(2**63), 10**12, 1e308, 5e-324, -0.0]
ODD_JSON: list[Any] = [None, True, -1, 0, 2**40, 10**18, 0.5, 1e300, "", "x", [], {}, [[1]], {"a": 1}]


def table(draw: Random) -> Rows:
    """Return the rows of a table of nodes: ids, labels and columns of several kinds."""
    size = draw.randint(6, 40)
    kinds: dict[str, Callable[[int], Any]] = {
        "size": lambda row: draw.randint(0, 99),
        "share": lambda row: round(draw.random(), 3),
        "kind": lambda row: draw.choice(["a", "b", "c"]),
        "text": lambda row: " ".join(draw.choices(["red", "green", "blue", "old"], k=3)),
        "date": lambda row: f"20{draw.randint(10, 20)}-0{draw.randint(1, 9)}-1{draw.randint(0, 9)}",
        "flag": lambda row: draw.choice(["yes", "no"]),
        "some": lambda row: draw.choice([None, 1, 2]),
    }
    chosen = draw.sample(list(kinds), draw.randint(1, 5))
    labels = ["x", "y", "z"][: draw.randint(2, 3)]
    return [
        {"id": f"n{row}", "label": labels[row % len(labels)], **{name: kinds[name](row) for name in chosen}}
        for row in range(size)
    ]


def links(draw: Random, rows: Rows) -> Rows:
    """Return the rows of a table of edges between the nodes of a table."""
    ids = [row["id"] for row in rows]
    weighted = draw.random() < 0.3
    return [
        {"source": draw.choice(ids), "target": draw.choice(ids), **({"weight": draw.randint(1, 5)} if weighted else {})}
        for _ in range(draw.randint(1, 60))
    ]


def change_table(draw: Random, rows: Rows, odd: list[Any]) -> None:
    """Change a table in one way; most tables stay valid."""
    columns = list(rows[0])
    column, row = draw.choice(columns), draw.choice(rows)
    feature = draw.choice(columns[2:] or columns)
    kind = draw.randrange(12)
    if kind < 4:
        row[feature] = draw.choice(odd)
    elif kind == 4:
        row[column] = draw.choice(odd)
    elif kind == 5:
        for one in rows:
            one[feature] = draw.choice(odd)
    elif kind == 6:
        for one in rows:
            one[f"{feature} {draw.choice(['é', '__proto__', 'id', '='])}"] = one.get(feature)
    elif kind == 7:
        draw.shuffle(rows)
    elif kind == 8:
        for one in rows:
            one.pop(feature, None)
    elif kind == 9:
        rows.append(dict(row))
    elif kind == 10:
        for one in draw.sample(rows, len(rows) // 2):
            one["label" if "label" in one else column] = None
    else:
        del rows[draw.randrange(len(rows))]


def changed(draw: Random, rows: Rows, odd: list[Any]) -> Rows:
    """Return a table after up to two changes, of which there is always one row left."""
    for _ in range(draw.choice([0, 1, 1, 2])):
        if len(rows) > 3 and len(rows[0]) > 2:
            change_table(draw, rows, odd)
    return rows


def damage(draw: Random, content: bytes, share: float = 0.12) -> bytes:
    """Return bytes, of which a few are changed, cut off or repeated in a share of the cases."""
    if not content or draw.random() > share:
        return content
    place, kind = draw.randrange(len(content)), draw.randrange(4)
    if kind == 0:
        return content[:place]
    if kind == 1:
        return content[:place] + bytes([draw.randrange(256)]) + content[place + 1 :]
    if kind == 2:
        return content[:place] + content[place : place + 20] * draw.choice([0, 2, 50]) + content[place + 20 :]
    return content[:place] + draw.choice([b"\0", b"\xff\xfe", b'"', b"\n", b"[" * 5000]) + content[place:]


def columns_of(rows: Rows) -> list[str]:
    """Return the names of all columns."""
    return list(dict.fromkeys(name for row in rows for name in row))


def as_csv(draw: Random, rows: Rows, delimiter: str) -> bytes:
    """Return rows as delimited text, with any quoting."""
    text, names = io.StringIO(), columns_of(rows)
    quoting = draw.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    writer = csv.writer(text, delimiter=delimiter, lineterminator=draw.choice(["\n", "\r\n"]), quoting=quoting)
    writer.writerow(names)
    writer.writerows([row.get(name) for name in names] for row in rows)
    return text.getvalue().encode("utf-8", "replace")


def as_json_lines(draw: Random, rows: Rows) -> bytes:
    """Return rows as JSON lines, of which some lack keys."""
    shown = [row if draw.random() < 0.95 else {name: row[name] for name in list(row)[:2]} for row in rows]
    return "".join(json.dumps(row, ensure_ascii=draw.random() < 0.5) + "\n" for row in shown).encode("utf-8", "replace")


def as_parquet(draw: Random, rows: Rows) -> bytes:
    """Return rows as Parquet, with columns of unusual types and values."""
    names, size = columns_of(rows), len(rows)
    content: dict[str, Any] = {}
    for name in names:
        values = [row.get(name) for row in rows]
        try:
            content[name] = pa.array(values)
        except (pa.ArrowException, OverflowError, TypeError):
            content[name] = pa.array([None if value is None else str(value) for value in values])
    extra: list[Callable[[], Any]] = [
        lambda: pa.array([draw.choice([0, 2**62, -(2**62)]) for _ in range(size)], pa.timestamp("us")),
        lambda: pa.array([draw.choice([0, 10**9]) for _ in range(size)], pa.int64()).cast(pa.timestamp("s", "UTC")),
        lambda: pa.array([draw.choice([b"a", b"\xff"]) for _ in range(size)], pa.binary()),
        lambda: pa.array([draw.choice(["a", "b"]) for _ in range(size)]).dictionary_encode(),
        lambda: pa.array([[draw.random() for _ in range(draw.randint(2, 2))] for _ in range(size)]),
        lambda: pa.array([{"a": 1, "b": [1, 2]}] * size),
        lambda: pa.array([draw.choice([0, -(2**31), 2**31 - 1]) for _ in range(size)], pa.int32()).cast(pa.date32()),
        lambda: pa.array([draw.choice([np.nan, np.inf, 1.0]) for _ in range(size)]),
        lambda: pa.nulls(size),
        lambda: pa.array([draw.choice([0, 10**15]) for _ in range(size)], pa.duration("us")),
        lambda: pa.array([draw.randint(0, 2**64 - 1) for _ in range(size)], pa.uint64()),
        lambda: pa.Array.from_buffers(
            pa.string(), size, [None, pa.py_buffer(np.arange(size + 1, dtype=np.int32)), pa.py_buffer(b"\xc3" * size)]
        ),
    ]
    if draw.random() < 0.5:
        content["odd"] = draw.choice(extra)()
    out = io.BytesIO()
    parquet.write_table(pa.table(content), out, compression=draw.choice(["snappy", "gzip", "none"]))
    return out.getvalue()


def as_graphml(draw: Random, rows: Rows, edges: Rows) -> bytes:
    """Return nodes and edges as GraphML, with attributes of any type."""
    types = ["string", "int", "long", "double", "float", "boolean"]
    names = [name for name in columns_of(rows) if name != "id"]
    fits = {name: "string" if draw.random() < 0.85 else draw.choice(types) for name in names}
    keys = [
        f'<key id="k{place}" for="node" attr.name="{name}" attr.type="{fits[name]}"/>'
        for place, name in enumerate(names)
    ]

    def escaped(value: object) -> str:
        return str(value).replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")

    nodes = [
        f'<node id="{escaped(row.get("id"))}">'
        + "".join(
            f'<data key="k{place}">{escaped(row[name])}</data>'
            for place, name in enumerate(names)
            if row.get(name) is not None
        )
        + "</node>"
        for row in rows
    ]
    arcs = [f'<edge source="{escaped(row.get("source"))}" target="{escaped(row.get("target"))}"/>' for row in edges]
    kind = draw.choice(["directed", "undirected"])
    body = f'<graph edgedefault="{kind}">{"".join(nodes)}{"".join(arcs)}</graph>'
    return f'<graphml xmlns="http://graphml.graphdrawing.org/xmlns">{"".join(keys)}{body}</graphml>'.encode(
        "utf-8", "replace"
    )


def npz(draw: Random) -> bytes:
    """Return an archive of a graph, of which arrays may be of another type, shape or size."""
    nodes = draw.randint(4, 30)
    rng = np.random.default_rng(draw.randrange(2**32))
    dense = rng.random((nodes, nodes)) < 0.2
    from scipy import sparse

    matrix = sparse.csr_array(dense.astype(np.float32))
    arrays: dict[str, Any] = {"adj_data": matrix.data, "adj_indices": matrix.indices, "adj_indptr": matrix.indptr}
    arrays |= {
        "adj_shape": np.array(matrix.shape),
        "attr_matrix": rng.random((nodes, 3)),
        "labels": np.arange(nodes) % 3,
    }
    if draw.random() < 0.4:
        arrays = {
            "edges": np.argwhere(dense),
            "node_features": rng.random((nodes, 3)),
            "node_labels": np.arange(nodes) % 2,
        }
        parts = rng.integers(0, 3, (2, nodes))
        arrays |= {f"{name}_masks": parts == place for place, name in enumerate(("train", "val", "test"))}
    for _ in range(draw.choice([0, 0, 1, 1, 2])):
        name = draw.choice(list(arrays))
        array = np.array(arrays[name])
        kind = draw.randrange(7)
        if kind == 0 and array.size:
            with np.errstate(all="ignore"):
                place = draw.randrange(array.size)
                value = draw.choice(ODD_NUMBERS)
                array = array.astype(np.float64) if array.dtype.kind == "f" else array
                array.flat[place] = value if array.dtype.kind == "f" else int(np.clip(value, -(2**31), 2**31 - 1))
        elif kind == 1:
            array = array.astype(draw.choice([np.int8, np.int64, np.uint16, np.float16, np.float64]))
        elif kind == 2:
            array = array[: len(array) // 2]
        elif kind == 3:
            array = array.reshape(-1)
        elif kind == 4:
            arrays["extra"] = np.array(["é", "x"])
        elif kind == 5:
            array = array[..., None]
        arrays[name] = array
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def toml(draw: Random) -> bytes:
    """Return options of training as TOML, of which some have odd values or do not exist."""
    options: dict[str, str] = {
        "graph": '"mushroom-body"',
        "model": draw.choice(['"mlp"', '"nlgcn"', '"gcn"', '"vote-gcn"']),
        "epochs": str(draw.randint(1, 500)),
        "lr": draw.choice(["0.01", "1e-3", "0.5"]),
        "hidden": str(draw.randint(1, 64)),
        "dropout": draw.choice(["0.0", "0.5"]),
        "seed": str(draw.randint(0, 9)),
        "metric": draw.choice(['"accuracy"', '"macro-f1"']),
        "runs": str(draw.randint(1, 10)),
        "weight-decay": "5e-4",
    }
    options = {name: value for name, value in options.items() if draw.random() < 0.7}
    odd = ["-1", "0", "1e400", "inf", "nan", "9" * 50, '""', '"x"', "[]", "[[1]]", "{a = 1}", "true", "1979-05-27"]
    if draw.random() < 0.45 and options:
        options[draw.choice(list(options))] = draw.choice([*odd, "[" * 3000, "9" * 5000])
    if draw.random() < 0.1:
        options[draw.choice(["hiden", "__proto__", "a.b.c", '"é"'])] = "1"
    return "".join(f"{name} = {value}\n" for name, value in options.items()).encode()


def change_json(draw: Random, content: Any) -> Any:
    """Return JSON after a change at a random place: another value, a missing key, a further one or another order."""
    if draw.random() < 0.35:  # a change of form only
        return dict(draw.sample(list(content.items()), len(content))) if isinstance(content, dict) else content
    place: Any = content
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place))) if isinstance(place, list) else []
        if not keys:
            return content
        key = draw.choice(keys)
        if isinstance(place[key], dict | list) and place[key] and draw.random() < 0.8:
            place = place[key]
            continue
        kind = draw.randrange(4)
        if kind < 2:
            place[key] = draw.choice(ODD_JSON)
        elif kind == 2 and isinstance(place, dict):
            del place[key]
        elif isinstance(place, dict):
            place[draw.choice(["date", "__proto__", "x"])] = draw.choice(ODD_JSON)
        return content


def change_folder(draw: Random, folder: Path) -> None:
    """Change one file of a folder: JSON in its structure, other files in their bytes, or remove it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    described = [path for path in files if path.suffix in (".json", ".jsonl")]
    path = draw.choice(described if draw.random() < 0.7 and described else files)
    kind = draw.random()
    if kind < 0.05:
        path.unlink()
    elif path.suffix == ".json" and kind < 0.8:
        path.write_text(json.dumps(change_json(draw, json.loads(path.read_text()))))
    elif kind < 0.9:
        path.touch()
    else:
        path.write_bytes(damage(draw, path.read_bytes(), 1.0))


def copied(folder: Path, target: Path) -> Path:
    """Return a copy of a folder in place of an earlier one."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target)
    return target
