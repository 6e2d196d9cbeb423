"""Parts of several readers: errors that name the file, npz files, pickles, 0/1 matrices.

Pickles are read without running code: only arrays, numbers, lists and dictionaries.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nlgnn.errors import DataError, NlgnnError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split

FRESH_COPY = "Replace the file by a fresh copy."
PARTS = ("train", "valid", "test")  # as LINKX and OGB name them
SPARSE_BELOW = 0.1  # share of non-zero entries below which a CSR first layer is faster


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn every error inside the block into a DataError that names the file."""
    try:
        yield
    except NlgnnError as error:
        raise DataError(f"{path}: {error.what}", error.how) from error
    # Parsers of broken bytes raise nearly anything (zlib.error, struct.error, TypeError, EOFError, …).
    except Exception as error:
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise DataError(
            f"{path} cannot be read in the format of its name ({reason}).",
            "It is damaged, incomplete or of another format: replace it by a fresh copy.",
        ) from error


@contextmanager
def reading_npz(path: Path) -> Iterator[Mapping[str, NDArray[np.generic]]]:
    """Open the arrays of an npz file. The file is opened here because np.load leaves a damaged one open."""
    with reading(path), path.open("rb") as file, np.load(file) as arrays:
        yield arrays


def read_heterophilous(path: Path, *, name: str, directed: bool) -> Graph:
    """Read an npz file of the heterophilous-graphs project, a layout that users' own files may have too.

    Edges are `[num_edges, 2]`, each undirected edge once, and masks `[num_splits, num_nodes]`.
    """
    with reading_npz(path) as arrays:
        masks = zip(arrays["train_masks"], arrays["val_masks"], arrays["test_masks"], strict=True)
        splits = tuple(Split(*parts, protocol="heterophilous", index=index) for index, parts in enumerate(masks))
        x = np.asarray(arrays["node_features"], np.float32)
        return Graph(
            x=sparse.csr_array(x) if np.count_nonzero(x) < SPARSE_BELOW * x.size else x,
            edge_index=arrays["edges"].T,
            y=arrays["node_labels"],
            directed=directed,
            name=name,
            splits={"heterophilous": splits},
        )


def node_order(numbers: NDArray[np.int64], what: str) -> NDArray[np.int64]:
    """Return the rows in the order of their node numbers, and raise an error unless each number occurs once."""
    order = np.argsort(numbers)
    if not np.array_equal(numbers[order], np.arange(len(numbers))):
        raise DataError(f"{what} is not 0 to {len(numbers) - 1}, each once.", FRESH_COPY)
    return order


def binary_rows(rows: NDArray[np.int64], columns: NDArray[np.int64], shape: tuple[int, int]) -> sparse.csr_array:
    """Return a 0/1 matrix with ones at the given places, which may repeat."""
    matrix = sparse.csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape=shape)
    matrix.sum_duplicates()
    matrix.data[:] = 1
    return matrix


def one_hot(codes: NDArray[np.int64], slots: int) -> sparse.csr_array:
    """Return a matrix with a 1 in the slot of each code; a row of zeros if the code is negative."""
    has_one = codes >= 0
    ends = np.concatenate([[0], np.cumsum(has_one)])
    return sparse.csr_array((np.ones(ends[-1], np.float32), codes[has_one], ends), shape=(len(codes), slots))


class PickledMatrix:
    """The pickled fields of a SciPy matrix, independent of the class names of the installed SciPy."""

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}

    def __setstate__(self, fields: dict[str, Any]) -> None:
        self.fields = {name: plain(value) for name, value in fields.items()}


class PickledType:
    """The pickled type of an array: numbers, text or objects, as NumPy names them, and the order of their bytes.

    NumPy's own type must not be restored: its state says whether bytes are references to objects, which NumPy believes.
    """

    def __init__(self, code: object, *_: object) -> None:
        self.code, self.order = code, "|"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = state[1]
        if any(part is not None for part in state[2:5]):  # parts, names and fields of a compound type
            raise DataError("An array has a compound type, which no graph needs.", FRESH_COPY)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the type of NumPy."""
        if not isinstance(self.code, str) or not PLAIN_TYPE.fullmatch(self.code) or self.order not in ("<", ">", "|"):
            raise DataError(f"An array has the type {self.code!r}, which no graph needs.", FRESH_COPY)
        return np.dtype(self.code).newbyteorder(cast(Any, self.order))


class PickledArray:
    """A pickled array, which is made of its bytes, or of a list for an array of objects."""

    value: NDArray[Any]

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, by_columns, content = state
        if not isinstance(kind, PickledType) or not all(isinstance(size, int) and size >= 0 for size in shape):
            raise DataError("An array has no shape or no type.", FRESH_COPY)
        if kind.code in ("O", "O8") and isinstance(content, list):
            self.value = np.empty(len(content), object)
            self.value[:] = [plain(one) for one in content]
        else:
            whole = content.encode("latin1") if isinstance(content, str) else content  # Python 2 had no bytes
            self.value = np.frombuffer(whole, kind.dtype).copy()
        self.value = self.value.reshape(shape, order="F" if by_columns else "C")


def plain(value: Any) -> Any:
    """Return a value in which pickled arrays, also those in lists and dictionaries, are arrays of NumPy."""
    if isinstance(value, PickledArray):
        return value.value
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


def new_array(*_: object) -> PickledArray:
    """Return an array whose content follows, in place of NumPy's function of this purpose."""
    return PickledArray()


def new_list(values: object = ()) -> list[Any]:
    """Return a list, which pickles of `defaultdict` name as the type of their values."""
    return list(values) if isinstance(values, list | tuple) else []


def new_dictionary(*_: object) -> dict[Any, Any]:
    """Return a dictionary in place of a `defaultdict`, whose function would be called."""
    return {}


PLAIN_TYPE = re.compile(r"[biu][1248]|f[248]|[SU]\d{1,5}")
ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): None,  # an argument of `_reconstruct`
    ("numpy", "dtype"): PickledType,
    ("numpy.core.multiarray", "_reconstruct"): new_array,
    ("numpy._core.multiarray", "_reconstruct"): new_array,
    ("scipy.sparse.csr", "csr_matrix"): PickledMatrix,
    ("collections", "defaultdict"): new_dictionary,
    ("__builtin__", "list"): new_list,  # Python 2's name for the module
    ("builtins", "list"): new_list,
}


class AllowListUnpickler(pickle.Unpickler):
    """An unpickler that refuses every class and function that the public graph files do not need.

    Those that they need are replaced by classes of this module, so that a pickle cannot set the state of others.
    """

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise DataError(
                f"The pickle asks for {module}.{name}, which no graph needs.",
                "Do not use this file, since unpickling can run code.",
            )
        return ALLOWED[module, name]


def unpickle(data: bytes) -> Any:
    """Return the pickled object."""
    # latin1 because the oldest files were written by Python 2, whose strings were bytes.
    return plain(AllowListUnpickler(io.BytesIO(data), encoding="latin1").load())


def unpickle_npy(path: Path) -> Any:
    """Return the objects in an .npy file that np.load would open only with allow_pickle=True."""
    with path.open("rb") as file:
        if np.lib.format.read_magic(file) == (1, 0):
            _, _, dtype = np.lib.format.read_array_header_1_0(file)
        else:
            _, _, dtype = np.lib.format.read_array_header_2_0(file)
        if not dtype.hasobject:
            raise DataError(f"It holds an array of {dtype} instead of pickled objects.", FRESH_COPY)
        return unpickle(file.read())
