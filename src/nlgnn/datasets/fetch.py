"""Finding a dataset's files: in the user's data folder, in the cache, or on the network; never taken unchecked."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from nlgnn.datasets.catalog import describe
from nlgnn.datasets.dataset import Dataset, RemoteFile
from nlgnn.errors import DataError


def data_folder() -> Path | None:
    """The folder of files that the user has placed by hand: environment variable NLGNN_DATA."""
    named = os.environ.get("NLGNN_DATA")
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise DataError(f"NLGNN_DATA names {folder}, which is not a folder.", "Correct it or unset it.")
    return folder


def cache_folder() -> Path:
    """Where downloads are kept: environment variable NLGNN_CACHE, or the system's usual place."""
    named = os.environ.get("NLGNN_CACHE")
    if named:
        return Path(named).expanduser()
    import pooch

    return Path(pooch.os_cache("nlgnn"))


def find(file: RemoteFile) -> Path | None:
    """The file on this machine, unchecked, or None. An archive may be there as the folder extracted from it."""
    for root in (data_folder(), cache_folder()):
        if root is None:
            continue
        if (root / file.path).is_file():
            return root / file.path
        if file.folder is not None and (root / file.folder).is_dir():
            return root / file.folder
    return None


def is_present(name: str) -> bool:
    """Whether loading this dataset would need no network. Nothing is hashed."""
    return all(find(file) is not None for file in describe(name).files)


def fetch(dataset: Dataset, *, allow_unverified: bool = False) -> list[Path]:
    """Every file of the dataset, found or downloaded, and checked."""
    return [fetch_file(file, allow_unverified=allow_unverified) for file in dataset.files]


def fetch_file(file: RemoteFile, *, allow_unverified: bool = False) -> Path:
    """One file, found or downloaded, and checked.

    Where no checksum is known, the file is taken only with `allow_unverified`, and its hash goes to standard error.
    """
    found = find(file)
    if file.sha256 is None and not allow_unverified:
        raise DataError(
            f"No checksum is known for {file.path} ({found or file.url}), so it is not taken by default.",
            f"Allow it with --allow-unverified (in Python allow_unverified=True). {how_to_place(file)}",
        )
    if found is None:
        return download(file)
    if found.is_dir():
        tell(f"{found}: a folder, taken without any check.")
    else:
        check(file, sha256_of(found), str(found), "Delete it to have it downloaded again.")
    return found


def download(file: RemoteFile) -> Path:
    """Into the cache. The file gets its name only when it is complete and its hash is right."""
    import pooch
    import requests
    from rich.console import Console

    from nlgnn.datasets.progress import DownloadBar

    target = cache_folder() / file.path
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    bar = DownloadBar(target.name, Console(stderr=True))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        pooch.HTTPDownloader(progressbar=bar, chunk_size=1 << 16)(file.url, str(partial), None)
        check(file, sha256_of(partial), file.url, "The publisher has changed it, or something on the way has.")
        partial.replace(target)
    except requests.RequestException as error:
        if error.response is not None:
            error.response.close()
        raise DataError(
            f"Downloading {file.path} from {file.url} failed: {plain_reason(error)}.", how_to_place(file)
        ) from None
    except OSError as error:
        raise DataError(
            f"Downloading {file.path} from {file.url} failed: cannot write {target} ({error.strerror or error}).",
            f"Free some space, or set NLGNN_CACHE to another folder. {how_to_place(file)}",
        ) from None
    finally:
        bar.close()
        with suppress(OSError):  # it was never written, or has its final name by now
            partial.unlink()
    return target


def check(file: RemoteFile, sha256: str, where: str, how: str) -> None:
    if file.sha256 is None:
        tell(f"{where}: no checksum is known; its sha256 is {sha256}")
    elif sha256 != file.sha256:
        raise DataError(
            f"{file.path} ({where}) is damaged or another version: its sha256 is {sha256}, expected {file.sha256}.",
            f"{how} {how_to_place(file)}",
        )


def sha256_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.", "Check its permissions.") from error


def how_to_place(file: RemoteFile) -> str:
    folder = os.environ.get("NLGNN_DATA")
    if folder:
        return f"To place it by hand, save {file.url} as {Path(folder) / file.path}."
    return f"To place it by hand, save {file.url} as {file.path} below a folder and set NLGNN_DATA to that folder."


def plain_reason(error: Exception) -> str:
    import requests

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"the server answered {error.response.status_code} {error.response.reason}"
    if isinstance(error, requests.Timeout):
        return "the server did not answer in time"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection was cut before the end"
    if isinstance(error, requests.ConnectionError):
        return "no connection could be made, or it was cut"
    return str(error)


def tell(message: str) -> None:
    """To standard error, whole lines: hashes are there to be copied."""
    from rich.console import Console

    Console(stderr=True, highlight=False, soft_wrap=True, markup=False).print(message)
