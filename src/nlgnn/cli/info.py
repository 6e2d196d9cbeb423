"""`nlgnn info`: versions, machine and settings, for reports of problems."""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer
from rich.table import Table

from nlgnn.cli.console import console

REQUIRED = (
    "numpy",
    "scipy",
    "scikit-learn",
    "lightgbm",
    "polars",
    "pyarrow",
    "optuna",
    "altair",
    "safetensors",
    "typer",
)
EXTRAS = ("torch-geometric", "networkx", "psycopg", "onnx", "onnxruntime", "tensorboard", "mlflow-skinny")
VARIABLES = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "CUDA_VISIBLE_DEVICES", "NO_COLOR")


def info(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")] = False) -> None:
    """Show versions, machine and settings, for a report of a problem. Paths and names of users are not shown."""
    facts = environment_facts()
    if as_json:
        console.out(json.dumps(facts, indent=2), highlight=False)
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    for name, value in facts.items():
        table.add_row(name, value)
    console.print(table)


def environment_facts() -> dict[str, str]:
    """Return what a result or an error may depend on, by name.

    Example:
        >>> from nlgnn.cli.info import environment_facts
        >>> environment_facts()["nlgnn"]
        '0.2.0'
    """
    import torch

    from nlgnn.datasets import CATALOG, is_present
    from nlgnn.limits import free_bytes
    from nlgnn.tables.table_files import memory_bytes
    from nlgnn.training.device import CORES, processor, versions

    packages = {name: _version(name) for name in (*REQUIRED, *EXTRAS)}
    gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    free = free_bytes()
    memory = f"{memory_bytes() / 2**30:.1f} GiB"
    present = sum(is_present(name) for name in CATALOG)
    return {
        **versions(),
        **{name: found or "not installed" for name, found in packages.items() if found or name in EXTRAS},
        "system": platform.platform(),
        "processor": f"{processor()}, {CORES} cores",
        "memory": memory if free is None else f"{memory}, {free / 2**30:.1f} GiB free",
        "GPU": ", ".join(gpus) or "none",
        "threads of torch": str(torch.get_num_threads()),
        "NLGNN_DATA": "set" if os.environ.get("NLGNN_DATA") else "not set",
        "named graphs": f"{present} of {len(CATALOG)} are on this machine",
        **{name: os.environ[name] for name in VARIABLES if name in os.environ},
    }


def _version(name: str) -> str | None:
    """Return the version of an installed package, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None
