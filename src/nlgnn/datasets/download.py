"""Search, download and verification of dataset files."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from nlgnn.datasets.catalog import RemoteFile, describe
from nlgnn.errors import DataError
from nlgnn.files import sha256_of, write_whole

if TYPE_CHECKING:
    from rich.console import Console


def data_folder() -> Path | None:
    """Return the folder of files placed by hand, which the environment variable NLGNN_DATA names, or None."""
    named = os.environ.get("NLGNN_DATA")
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise DataError(f"NLGNN_DATA names {folder}, which is not a folder.", "Correct it or unset it.")
    return folder


def cache_folder() -> Path:
    """Return the folder of downloads: the environment variable NLGNN_CACHE, or the default cache of the system."""
    named = os.environ.get("NLGNN_CACHE")
    if named:
        return Path(named).expanduser()
    import pooch

    return Path(pooch.os_cache("nlgnn"))


def find(file: RemoteFile) -> Path | None:
    """Return the path of the file, or of the folder extracted from it, without verification; None if it is absent."""
    for root in (data_folder(), cache_folder()):
        if root is None:
            continue
        if (root / file.path).is_file():
            return root / file.path
        if file.folder is not None and (root / file.folder).is_dir():
            return root / file.folder
    return None


def is_present(name: str) -> bool:
    """Return whether all files of a named graph are on this machine. Their checksums are not verified.

    Args:
        name: A name in `CATALOG`, in any case, with `_` or `-`.

    Returns:
        True if `load_graph` needs no network.

    Raises:
        DataError: If there is no such graph.

    Example:
        >>> is_present("mushroom-body")
        True
    """
    return all(find(file) is not None for file in describe(name).files)


def fetch_file(file: RemoteFile, *, allow_unverified: bool = False) -> Path:
    """Return the path of a file, downloaded if necessary, and verified.

    A file without a known checksum is accepted only with `allow_unverified`, or if the environment variable
    NLGNN_ALLOW_UNVERIFIED is 1. Its checksum is printed on standard error.
    """
    found = find(file)
    allow_unverified = allow_unverified or os.environ.get("NLGNN_ALLOW_UNVERIFIED") == "1"
    if file.sha256 is None and not allow_unverified:
        raise DataError(
            f"No checksum is known for {file.path} ({found or file.url}), so it is not used by default.",
            "Allow it with --allow-unverified (in Python allow_unverified=True; for any command, set "
            f"NLGNN_ALLOW_UNVERIFIED=1). {how_to_place(file)}",
        )
    if found is None:
        return download(file)
    if found.is_dir():
        print(f"{found} is a folder, which is used without verification.", file=sys.stderr)
    else:
        try:
            check(file, found, str(found), "Delete it to download it again.")
        except OSError as error:
            raise DataError(f"{found} cannot be read: {error.strerror}.", "Check its permissions.") from error
    return found


def download(file: RemoteFile) -> Path:
    """Download a file into the cache. It gets its name only after its checksum was verified."""
    import pooch
    import requests
    from rich.console import Console

    target = cache_folder() / file.path
    bar = DownloadBar(target.name, Console(stderr=True))

    def save(part: Path) -> None:
        pooch.HTTPDownloader(progressbar=bar, chunk_size=1 << 16)(file.url, str(part), None)
        check(file, part, file.url, "The publisher changed the file, or the download was altered.")

    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, save)
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
    return target


def check(file: RemoteFile, path: Path, where: str, how: str) -> None:
    """Raise an error unless a file has the expected checksum; print the checksum if none is known."""
    sha256 = sha256_of(path)
    if file.sha256 is None:
        print(f"{where}: no checksum is known; its sha256 is {sha256}", file=sys.stderr)
    elif sha256 != file.sha256:
        raise DataError(
            f"{file.path} ({where}) is damaged or another version: its sha256 is {sha256}, expected {file.sha256}.",
            f"{how} {how_to_place(file)}",
        )


def how_to_place(file: RemoteFile) -> str:
    """Return the sentence that explains how to place a file by hand."""
    folder = os.environ.get("NLGNN_DATA")
    if folder:
        return f"To place it by hand, save {file.url} as {Path(folder) / file.path}."
    return f"To place it by hand, save {file.url} as {file.path} below a folder and set NLGNN_DATA to that folder."


def plain_reason(error: Exception) -> str:
    """Return the reason of a failed download in plain words."""
    import requests

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"the server answered {error.response.status_code} {error.response.reason}"
    reasons = {
        requests.Timeout: "the server did not answer in time",
        requests.exceptions.ChunkedEncodingError: "the connection was cut before the end",
        requests.ConnectionError: "no connection could be made, or it was cut",
    }
    return next((reason for kind, reason in reasons.items() if isinstance(error, kind)), str(error))


class DownloadBar:
    """A progress bar with the interface that pooch expects: the attribute `total`, update, reset and close.

    Args:
        description: The text in front of the bar.
        console: The console on which it is drawn, if it is a terminal.
        min_bytes: The size from which a bar is drawn. Smaller files arrive before it could be read.
    """

    def __init__(self, description: str, console: Console, min_bytes: int = 1_000_000) -> None:
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self.total = 0
        self._min_bytes = min_bytes
        self._progress = Progress(*columns, console=console, transient=True)
        self._task = self._progress.add_task(description)

    def update(self, num_bytes: int) -> None:
        """Advance the bar, which is drawn on the first call."""
        if self.total >= self._min_bytes and self._progress.console.is_terminal:
            self._progress.start()
            self._progress.update(self._task, total=self.total, advance=num_bytes)

    def reset(self) -> None:
        """Set the bar to zero; pooch calls this before the last update, which then fills the bar."""
        self._progress.reset(self._task)

    def close(self) -> None:
        """Remove the bar."""
        if self._progress.live.is_started:
            self._progress.stop()
