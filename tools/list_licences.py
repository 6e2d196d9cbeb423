"""List the licences of the package and of everything that it depends on, directly or not, as installed.

python tools/list_licences.py --all also lists what the extras need.
"""

from __future__ import annotations

import argparse
import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement


def licence_of(found: Distribution) -> str:
    """Return the licence that a package states: an expression, classifiers, or the first words of the field."""
    metadata = found.metadata
    expression = metadata.get("License-Expression")
    if expression:
        return expression
    classifiers = [line.split(" :: ")[-1] for line in metadata.get_all("Classifier", []) if line.startswith("License")]
    if classifiers:
        return "; ".join(classifiers)
    return (metadata.get("License") or "not stated").strip().splitlines()[0][:60]


def dependencies(found: Distribution, extras: set[str]) -> list[str]:
    """Return the names of the packages that a package needs here."""
    needed = []
    for line in found.requires or []:
        requirement = Requirement(line)
        contexts = [{"extra": extra} for extra in extras or {""}]
        if requirement.marker is None or any(requirement.marker.evaluate(context) for context in contexts):
            needed.append(requirement.name)
    return needed


def collect(name: str, extras: set[str]) -> dict[str, Distribution]:
    """Return a package and all that it needs, by their names."""
    waiting, found = [(name, extras)], dict[str, Distribution]()
    while waiting:
        one, asked = waiting.pop()
        key = re.sub(r"[-_.]+", "-", one).lower()
        if key in found:
            continue
        try:
            found[key] = distribution(one)
        except PackageNotFoundError:
            continue  # of an extra that is not installed
        waiting += [(needed, set()) for needed in dependencies(found[key], asked)]
    return found


def main() -> None:
    """Print one line per package: name, version and licence."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true")
    everything = parser.parse_args().all
    extras = set(distribution("nlgnn").metadata.get_all("Provides-Extra", [])) if everything else set()
    found = collect("nlgnn", extras)
    width = max(map(len, found))
    for name in sorted(found):
        print(f"{name:{width}}  {found[name].version:14}  {licence_of(found[name])}")


if __name__ == "__main__":
    main()
