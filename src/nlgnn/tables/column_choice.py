"""ColumnChoice: the columns that a user leaves out or keeps, and the kinds that a user gives them."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from nlgnn.errors import OptionError, nearest
from nlgnn.tables.detection import KINDS, Kind
from nlgnn.tables.values import Table


@dataclass(frozen=True)
class ColumnChoice:
    """The user's choice of columns.

    Args:
        drop: The columns that are left out. No other role is searched for in them, either.
        keep: The only columns that become features; by default all of them.
        kind: The kinds of some columns, which are otherwise found from their values.
        drop_leaks: Whether columns that give away the label are left out.

    Raises:
        OptionError: If a kind is unknown, or a column is chosen in two ways.
    """

    drop: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    kind: Mapping[str, str] = field(default_factory=dict)
    drop_leaks: bool = False

    def __post_init__(self) -> None:
        for name, kind in self.kind.items():
            if kind not in KINDS:
                raise OptionError(f"The column {name!r} cannot be of the kind {kind!r}.", nearest(kind, KINDS))

    @classmethod
    def of(
        cls, drop: Sequence[str] | str, keep: Sequence[str] | str, kind: Mapping[str, str] | None, drop_leaks: bool
    ) -> ColumnChoice:
        """Return the choice of arguments, in which a single column may be a text."""
        dropped, kept = ((names,) if isinstance(names, str) else tuple(names) for names in (drop, keep))
        return cls(dropped, kept, dict(kind or {}), drop_leaks)

    def __bool__(self) -> bool:
        """Return whether anything was chosen."""
        return self != ColumnChoice()

    @property
    def kinds(self) -> dict[str, Kind]:
        """The kinds of columns, where those to leave out are of the kind "ignore"."""
        return {name: cast(Kind, kind) for name, kind in self.kind.items()} | dict.fromkeys(self.drop, "ignore")

    def checked(self, table: Table, roles: Mapping[str, str | None]) -> ColumnChoice:
        """Return the choice with names that the table has.

        Args:
            table: The table of nodes.
            roles: The columns that were named for another role.

        Raises:
            DataError: If the table lacks a column.
            OptionError: If a column is chosen in two ways, or has another role.
        """
        found = replace(self, drop=_present(self.drop, table, "--drop"), keep=_present(self.keep, table, "--keep"))
        for name in self.kind:
            table.require(name, "--kind")
        for name in found.drop:
            if name in found.keep or self.kind.get(name, "ignore") != "ignore":
                raise OptionError(f"The column {name!r} is dropped and used.", f"Leave {dropping(name)} out.")
        for role, column in roles.items():
            if column is not None and (column in found.drop or column in found.kind):
                raise OptionError(
                    f"The column {column!r} holds the {role}: it is no feature that could be dropped or have a kind.",
                    "Name another column, or none.",
                )
        return found

    def without_dropped(self, table: Table) -> Table:
        """Return the table without the columns to leave out."""
        names = tuple(name for name in table.columns if name not in self.drop)
        if not names:
            raise OptionError(f"All columns of {table.source} are dropped.", "Leave at least one.")
        return replace(table, columns=names)

    def kinds_of(self, features: Collection[str]) -> dict[str, Kind]:
        """Return the kinds of columns that can be features; all but those to keep are of the kind "ignore"."""
        others = [name for name in features if self.keep and name not in self.keep]
        return self.kinds | dict.fromkeys(others, "ignore")


def _present(names: tuple[str, ...], table: Table, flag: str) -> tuple[str, ...]:
    """Return names of columns; a name that the table lacks may be several between commas."""
    found = []
    for name in names:
        parts = [name] if name in table.columns else [part.strip() for part in name.split(",")]
        found += [table.require(part, flag) for part in parts]
    return tuple(dict.fromkeys(found))


def parsed_kinds(texts: Sequence[str]) -> dict[str, str]:
    """Return the kinds of columns that texts such as size=number give.

    Raises:
        OptionError: If a text has no kind, or an unknown one.
    """
    for text in texts:
        if "=" not in text:
            raise OptionError(f"--kind {text} names no kind.", "Write --kind COLUMN=KIND, such as --kind size=number.")
    kinds = {column: kind for column, _, kind in (text.rpartition("=") for text in texts)}
    return dict(ColumnChoice(kind=kinds).kind)


def dropping(name: str) -> str:
    """Return the flag that leaves a column out.

    Example:
        >>> dropping("was paid")
        "--drop 'was paid'"
    """
    return f"--drop{'=' if name.startswith('-') else ' '}{shlex.quote(name)}"
