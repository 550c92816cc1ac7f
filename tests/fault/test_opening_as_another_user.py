"""Folders and files that a user may not read or write: an error of ours, or an answer."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import otolith
from otolith.errors import Denied, Error, Invalid, NotAStore, ReadOnly, StoreNotFound

NOBODY = 65534
HANG = 60

pytestmark = pytest.mark.skipif(os.name != "posix", reason="users of POSIX")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        with otolith.open(Path(name) / "good.db") as repo:
            state = repo.session("a")
            state["x"] = 1
            state.commit()
        yield Path(name)
        for each in Path(name).rglob("*"):
            if each.is_dir() and not each.is_symlink():
                each.chmod(0o700)


def as_nobody(call: Callable[[], object]) -> str:
    """Return what comes of a call by a user who has no rights: its repr, or the kind of error."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # the real ids too: SQLite and the kernel ask for those
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(HANG)
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            told = repr(call())
        except Error as error:
            told = f"{error.kind} {bool(error.hint)}"
        except BaseException as error:  # noqa: BLE001 - it is told to the parent
            told = f"RAW {error!r}"
        os.write(writing, told.encode()[:4000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        told = answer.read().decode()
    os.waitpid(child, 0)
    return told or "RAW: it hung"


def value(path: Path, **options: Any) -> Callable[[], object]:
    def read() -> object:
        with otolith.open(path, **options) as repo:
            return repo.session("a")["x"]

    return read


def written(path: Path) -> Callable[[], object]:
    def write() -> object:
        with otolith.open(path) as repo:
            state = repo.session("a")
            state["x"] = 2
            state.commit()
            return "written"

    return write


def place(folder: Path, name: str, *, folder_mode: int, file_mode: int) -> Path:
    inner = folder / name
    inner.mkdir()
    shutil.copy(folder / "good.db", inner / "a.db")
    (inner / "a.db").chmod(file_mode)
    inner.chmod(folder_mode)
    if os.geteuid() != 0:
        pytest.skip("needs root, to become somebody without rights")
    return inner


@pytest.mark.parametrize("options", [{}, {"read_only": True}], ids=["write", "read"])
@pytest.mark.parametrize("name", ["a.db", "new.db"])
def test_a_folder_without_permission_is_denied(folder, name, options):
    inner = place(folder, "closed", folder_mode=0o700, file_mode=0o644)
    assert as_nobody(value(inner / name, **options)) == "denied True"


def test_a_file_without_permission_is_denied(folder):
    inner = place(folder, "secret", folder_mode=0o755, file_mode=0o600)
    assert as_nobody(value(inner / "a.db")) == "denied True"
    assert as_nobody(value(inner / "a.db", read_only=True)) == "denied True"


def test_a_folder_that_cannot_be_written_is_read(folder):
    inner = place(folder, "read-only", folder_mode=0o755, file_mode=0o644)
    assert as_nobody(written(inner / "a.db")) == "denied True"
    assert as_nobody(value(inner / "a.db", read_only=True)) == "1"
    assert as_nobody(written(inner / "new.db")) == "denied True"


def test_a_file_that_cannot_be_written_is_read(folder):
    inner = place(folder, "file", folder_mode=0o777, file_mode=0o444)
    assert as_nobody(written(inner / "a.db")) in ("read_only True", "denied True")
    assert as_nobody(value(inner / "a.db", read_only=True)) == "1"


def test_a_home_without_rights_does_not_keep_anybody_from_opening(folder, monkeypatch):
    inner = place(folder, "work", folder_mode=0o777, file_mode=0o666)
    (folder / "home").mkdir(mode=0o700)
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(folder / "home"))
    monkeypatch.delenv("OTOLITH_KEY", raising=False)
    assert as_nobody(value(inner / "a.db")) == "1"
    assert as_nobody(written(inner / "a.db")) == "'written'"


def test_a_signed_pickle_without_a_place_for_the_key_is_an_error_of_ours(folder, monkeypatch):
    inner = place(folder, "work", folder_mode=0o777, file_mode=0o666)
    (folder / "home").mkdir(mode=0o700)
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(folder / "home"))
    monkeypatch.delenv("OTOLITH_KEY", raising=False)

    def pickled() -> object:
        with otolith.open(inner / "a.db", pickle="signed") as repo:
            state = repo.session("a")
            state["x"] = Odd()
            state.commit()
            return "written"

    told = as_nobody(pickled)
    assert not told.startswith("RAW"), told


class Odd:
    """A class that only pickle keeps."""

    def __init__(self) -> None:
        self.x = 1


def _circle(folder: Path) -> Path:
    (folder / "one").symlink_to(folder / "two")
    (folder / "two").symlink_to(folder / "one")
    return folder / "one"


def _below_a_file(folder: Path) -> Path:
    return folder / "good.db" / "a.db"


def _socket(folder: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "socket"))
    return folder / "socket"


def _fifo(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def _link_to_nothing(folder: Path) -> Path:
    (folder / "link").symlink_to(folder / "missing" / "a.db")
    return folder / "link"


def _wal_is_a_folder(folder: Path) -> Path:
    (folder / "good.db-wal").mkdir()
    return folder / "good.db"


ODD: dict[str, Callable[[Path], object]] = {
    "a circle of links": _circle,
    "below a file": _below_a_file,
    "a socket": _socket,
    "a pipe": _fifo,
    "a link to nothing": _link_to_nothing,
    "a folder for the log": _wal_is_a_folder,
    "a device": lambda folder: "/dev/null",
    "an endless device": lambda folder: "/dev/zero",
    "a terminal": lambda folder: "/dev/tty",
    "memory of the process": lambda folder: "/proc/self/mem",
    "a nul": lambda folder: f"{folder}/a\0b",
    "half a character": lambda folder: f"{folder}/a\ud800b",
    "a long name": lambda folder: folder / ("x" * 300),
    "a long path": lambda folder: f"{folder}/{'x/' * 3000}a",
    "nothing": lambda folder: "",
    "a folder": lambda folder: folder,
    "an empty scheme": lambda folder: "://",
    "an unknown scheme": lambda folder: "gopher://x",
    "a scheme and nothing": lambda folder: "sqlite://",
    "a query": lambda folder: f"sqlite:///{folder}/q?mode=memory",
    "a bad port": lambda folder: "redis://host:99999999/",
    "bytes": lambda folder: b"a.db",
    "a number": lambda folder: 5,
    "None": lambda folder: None,
}


@pytest.mark.parametrize("options", [{}, {"read_only": True}], ids=["write", "read"])
@pytest.mark.parametrize("name", ODD)
def test_what_can_be_no_store_is_refused_at_once(folder, name, options, monkeypatch):
    monkeypatch.chdir(folder)
    path = ODD[name](folder)
    told = as_nobody(value(path, **options))  # type: ignore[arg-type]
    assert not told.startswith("RAW"), told


def test_what_is_refused_is_said_by_its_kind(folder):
    for name, kind in [("a pipe", NotAStore), ("a nul", Invalid), ("below a file", Error)]:
        with pytest.raises(kind):
            otolith.open(ODD[name](folder))  # type: ignore[arg-type]
    with pytest.raises((StoreNotFound, NotAStore, Invalid, Denied, ReadOnly)):
        otolith.open(_circle(folder))
