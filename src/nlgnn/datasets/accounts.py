"""Synthetic tables of accounts and payments: a rare class, mixed columns with gaps, and directed edges that matter."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

ACCOUNTS_FILE, PAYMENTS_FILE, LABEL = "accounts.csv", "payments.csv", "is_fraud"
COUNTRIES = ("DE", "FR", "NL", "PL")
CHANNELS = ("app", "web", "branch")
FRAUD_SHARE, BLANK_SHARE, UNKNOWN_SHARE = 0.06, 0.05, 0.1
Table = list[list[object]]


def account_tables(accounts: int, seed: int, fraud_share: float = FRAUD_SHARE) -> tuple[Table, Table]:
    """Return the rows of a table of accounts and of a table of payments, headers first.

    Fraudulent accounts are paid by old accounts and pay new ones. Equally many accounts, such as shops, are paid by new
    ones and pay old ones: only the direction of payments tells the two apart. Own columns say little.

    Args:
        accounts: The number of accounts.
        seed: The seed of all random numbers.
        fraud_share: The expected share of fraudulent accounts, at most 0.5.

    Example:
        >>> nodes, edges = account_tables(100, seed=0)
        >>> nodes[0], len(nodes)
        (['account', 'country', 'channel', 'age_days', 'mean_amount', 'is_fraud'], 101)
    """
    rng = np.random.default_rng(seed)
    kind = rng.choice(3, accounts, p=[1 - 2 * fraud_share, fraud_share, fraud_share])  # other, fraud, shop
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
    rows: Table = [["account", "country", "channel", "age_days", "mean_amount", LABEL]]
    for number in range(accounts):
        cells = [COUNTRIES[country[number]], CHANNELS[channel[number]], "" if blank[number] else int(age[number])]
        label = "" if unknown[number] else "yes" if kind[number] == 1 else "no"
        rows.append([f"A{number:05d}", *cells, float(amount[number]), label])
    order = rng.permutation(len(payments))
    links: Table = [
        [f"A{one:05d}", f"A{other:05d}"] for one, other in (payments[place] for place in order) if one != other
    ]
    links.insert(0, ["payer", "payee"])
    return rows, links


def write_account_tables(
    folder: Path, accounts: int = 1500, seed: int = 0, fraud_share: float = FRAUD_SHARE
) -> tuple[Path, Path]:
    """Write both tables of `account_tables` as CSV files into a folder, and return their paths."""
    paths = folder / ACCOUNTS_FILE, folder / PAYMENTS_FILE
    for path, rows in zip(paths, account_tables(accounts, seed, fraud_share), strict=True):
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
    return paths
