"""Finding and downloading: only whole and right files are ever taken, and every message says how to go on."""

from __future__ import annotations

import errno
import hashlib
import http.server
import io
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from nlgnn.datasets import RemoteFile, is_present, load_graph
from nlgnn.datasets.download import DownloadBar, cache_folder, fetch_file
from nlgnn.errors import DataError

CONTENT = b"the whole content of a file, " * 1000


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/missing":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[: len(CONTENT) // 2] if self.path == "/cut" else CONTENT)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server on loopback: /whole answers, /missing does not exist, /cut breaks off in the middle."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


RIGHT = hashlib.sha256(CONTENT).hexdigest()
PATH = "project/file.bin"


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_download_goes_to_the_cache_and_is_found_there_again(server: str, empty_cache: Path) -> None:
    path = fetch_file(RemoteFile(PATH, f"{server}/whole", RIGHT))
    assert path == empty_cache / PATH
    assert path.read_bytes() == CONTENT
    assert files_below(empty_cache) == [path]
    # The second time nothing is asked of the network: this address does not exist.
    assert fetch_file(RemoteFile(PATH, f"{server}/missing", RIGHT)) == path


@pytest.mark.parametrize(
    ("page", "sha256", "reason"),
    [
        ("cut", RIGHT, "cut before the end"),
        ("missing", RIGHT, "404"),
        ("whole", "0" * 64, f"its sha256 is {RIGHT}, expected {'0' * 64}"),
    ],
)
def test_failed_download_names_file_and_address_and_leaves_nothing(
    server: str, empty_cache: Path, page: str, sha256: str, reason: str
) -> None:
    with pytest.raises(DataError) as caught:
        fetch_file(RemoteFile(PATH, f"{server}/{page}", sha256))
    message = str(caught.value)
    assert reason in message
    assert PATH in message
    assert f"save {server}/{page} as {PATH}" in message
    assert "NLGNN_DATA" in message
    assert files_below(empty_cache) == []


def test_cut_download_without_checksum_is_not_taken(server: str, empty_cache: Path) -> None:
    with pytest.raises(DataError, match="cut before the end"):
        fetch_file(RemoteFile(PATH, f"{server}/cut"), allow_unverified=True)
    assert files_below(empty_cache) == []


def test_no_network(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(DataError, match="no connection could be made"):
        fetch_file(RemoteFile(PATH, "http://127.0.0.1:9/", RIGHT))


def test_cache_that_cannot_be_written(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NLGNN_DATA", raising=False)
    (tmp_path / "a-file").touch()
    monkeypatch.setenv("NLGNN_CACHE", str(tmp_path / "a-file"))
    with pytest.raises(DataError, match=r"(?s)cannot write .*NLGNN_CACHE"):
        fetch_file(RemoteFile(PATH, f"{server}/whole", RIGHT))


def test_full_disk(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_a_little(self: object, url: str, output_file: str, pooch: object) -> None:
        Path(output_file).write_bytes(CONTENT[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pooch.HTTPDownloader.__call__", write_a_little)
    with pytest.raises(DataError, match=r"(?s)No space left on device.*NLGNN_CACHE"):
        fetch_file(RemoteFile(PATH, "http://127.0.0.1:9/", RIGHT))
    assert files_below(empty_cache) == []


@pytest.mark.parametrize(
    ("terminal", "size", "shown"), [(True, 5_000_000, True), (True, 5_000, False), (False, 5_000_000, False)]
)
def test_progress_bar_only_where_one_would_wait(terminal: bool, size: int, shown: bool) -> None:
    screen = io.StringIO()
    bar = DownloadBar("file.bin", Console(file=screen, force_terminal=terminal))
    bar.total = size
    bar.update(size // 2)
    bar.reset()
    bar.update(size)
    bar.close()
    assert ("file.bin" in screen.getvalue()) == shown


def test_unknown_checksum_is_refused_unless_allowed_and_then_printed(
    server: str, empty_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = RemoteFile(PATH, f"{server}/whole")
    with pytest.raises(DataError, match="allow-unverified"):
        fetch_file(file)
    assert files_below(empty_cache) == []
    fetch_file(file, allow_unverified=True)
    assert RIGHT in capsys.readouterr().err
    # Also when it lies on this machine.
    with pytest.raises(DataError, match="allow-unverified"):
        fetch_file(file)
    fetch_file(file, allow_unverified=True)
    assert RIGHT in capsys.readouterr().err


def test_data_folder_comes_first_and_is_checked(
    empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed = tmp_path / "placed" / PATH
    placed.parent.mkdir(parents=True)
    monkeypatch.setenv("NLGNN_DATA", str(tmp_path / "placed"))
    file = RemoteFile(PATH, "http://127.0.0.1:9/", RIGHT)
    placed.write_bytes(CONTENT)
    assert fetch_file(file) == placed
    placed.write_bytes(CONTENT[:-1])
    with pytest.raises(DataError) as caught:
        fetch_file(file)
    found = hashlib.sha256(CONTENT[:-1]).hexdigest()
    assert f"its sha256 is {found}, expected {RIGHT}" in str(caught.value)
    assert str(placed) in str(caught.value)


def test_data_folder_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NLGNN_DATA", "no/such/folder")
    with pytest.raises(DataError, match="not a folder"):
        load_graph("texas")


def test_extracted_archive_stands_for_the_archive(
    empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NLGNN_DATA", str(tmp_path))
    (tmp_path / "ogb" / "arxiv").mkdir(parents=True)
    assert is_present("ogbn-arxiv")
    file = RemoteFile("ogb/arxiv.zip", "http://127.0.0.1:9/", folder="ogb/arxiv")
    assert fetch_file(file, allow_unverified=True) == tmp_path / "ogb" / "arxiv"
    assert "without verification" in capsys.readouterr().err


def test_is_present(empty_cache: Path) -> None:
    assert is_present("mushroom-body")
    assert not is_present("texas")


def test_cache_is_the_systems_own_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NLGNN_CACHE", raising=False)
    assert cache_folder().name == "nlgnn"
