"""Make accounts.csv and payments.csv: accounts of which few are fraudulent, and payments between them.

An account is suspicious if it is paid by old accounts and pays new ones. An account that is paid by new ones and pays
old ones, such as a shop, is not: only the direction of payments tells the two apart.

    python make_tables.py [FOLDER] [ACCOUNTS] [SEED]
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

COUNTRIES = ("DE", "FR", "NL", "PL")
CHANNELS = ("app", "web", "branch")
FRAUD_SHARE, SHOP_SHARE, BLANK_SHARE, UNKNOWN_SHARE = 0.06, 0.06, 0.05, 0.1


def make_tables(accounts: int, seed: int) -> tuple[list[list[object]], list[list[object]]]:
    """Return the rows of both tables, headers first.

    Args:
        accounts: The number of accounts.
        seed: The seed of all random numbers.
    """
    rng = np.random.default_rng(seed)
    kind = rng.choice(3, accounts, p=[1 - FRAUD_SHARE - SHOP_SHARE, FRAUD_SHARE, SHOP_SHARE])  # other, fraud, shop
    age = np.round(rng.gamma(2.0, 400.0, accounts)).astype(int)  # in days
    special = kind > 0
    amount = np.round(rng.lognormal(4.0 + 0.4 * special, 0.8), 2)
    country = rng.integers(len(COUNTRIES), size=accounts)
    channel = np.where(rng.random(accounts) < 0.3 + 0.2 * (kind == 1), 0, rng.integers(len(CHANNELS), size=accounts))
    old, new = np.flatnonzero(age > np.quantile(age, 0.6)), np.flatnonzero(age < np.quantile(age, 0.4))
    anyone = np.arange(accounts)
    payments = []
    for account in range(accounts):
        payers, paid = {0: (anyone, anyone), 1: (old, new), 2: (new, old)}[int(kind[account])]
        payments += [(int(rng.choice(payers)), account) for _ in range(rng.poisson(3))]
        payments += [(account, int(rng.choice(paid))) for _ in range(rng.poisson(3))]
    blank, unknown = rng.random(accounts) < BLANK_SHARE, rng.random(accounts) < UNKNOWN_SHARE
    rows: list[list[object]] = [["account", "country", "channel", "age_days", "mean_amount", "is_fraud"]]
    for number in range(accounts):
        cells = [COUNTRIES[country[number]], CHANNELS[channel[number]], "" if blank[number] else int(age[number])]
        label = "" if unknown[number] else "yes" if kind[number] == 1 else "no"
        rows.append([f"A{number:05d}", *cells, float(amount[number]), label])
    order = rng.permutation(len(payments))
    links = [[f"A{one:05d}", f"A{other:05d}"] for one, other in (payments[place] for place in order) if one != other]
    return rows, [["payer", "payee"], *links]


def write_tables(folder: Path, accounts: int = 1500, seed: int = 0) -> None:
    """Write both tables into a folder."""
    tables = make_tables(accounts, seed)
    for name, rows in zip(("accounts.csv", "payments.csv"), tables, strict=True):
        with (folder / name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    place, *numbers = sys.argv[1:] or ["."]
    write_tables(Path(place), *map(int, numbers))
