"""Whose a work folder is: which session left it, at which commit, and which processes use it.

    otolith/folders/DIGEST.json    under $XDG_STATE_HOME, or else ~/.local/state
        {"folder": path, "number": inode, "repo": salt, "ref": text, "commit": id, "running": bool,
         "processes": [[pid, born], ...]}    the host, then those that end last in its sandbox

The note is on this machine and not in the state: a state goes to other machines, a folder does not.
It is out of reach for code in a sandbox that hides files. Where it cannot be written nothing is
known of the folder, and nothing in it is taken for something that can be removed.

When a host is killed, its sandbox ends with it, but a little later, and until then a step goes on
writing. So the processes are noted that end last: whoever comes next waits for them, and ends them
if they do not end by themselves. They are noted before the first code of a step runs. Nothing that
the code does changes who they are, what it starts or closes: they are the process whose end is the
end of all others in its sandbox, by the kernel (bubblewrap), by the program that waits for a
container, or by the fork server, which ends last what it has forked.
"""

from __future__ import annotations

import functools
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from otolith.core import Branch, digest
from otolith.errors import Busy
from otolith.workspace.sandbox import ProcessId, end_processes, identify

_PATIENCE_SECONDS = 10.0
_LOOKED_AT = 50
_ROOM_BYTES = 1024


class Left(NamedTuple):
    """How a session left a folder."""

    commit: str
    was_running: bool


class Users(NamedTuple):
    """The processes that used a folder last: the host, and those that end last in its sandbox."""

    host: ProcessId
    sandbox: tuple[ProcessId, ...]
    is_running: bool


class Ownership:
    """What is noted about one folder."""

    def __init__(self, folder: Path, state: Branch) -> None:
        self._folder = folder
        self._state = state
        name = digest(os.fsencode(folder)).hex()[:32]
        self._file = _notes() / f"{name}.json"
        self._is_begun = False
        self._sandbox: list[ProcessId] = []

    def begin_sandbox(self, last_processes: list[ProcessId]) -> None:
        """Note which processes end last of a sandbox in which a step is about to run."""
        self._sandbox = last_processes
        self.note(is_running=True)

    def wait_for_predecessor(self, *, patience_seconds: float = _PATIENCE_SECONDS) -> None:
        """Return when nobody is left in the sandbox of a host that was killed, whoever ends it.

        Raises:
            Busy: somebody is, or a host that lives runs a step here.
        """
        users = self._users()
        if users is None or users.host.pid == os.getpid():
            return
        if users.host.is_alive:
            if users.is_running:
                raise Busy(
                    f"process {users.host.pid} runs a step in {self._folder}",
                    hint="wait until it ends, or fork the session to work beside it",
                )
            return
        if not end_processes(users.sandbox, patience_seconds=patience_seconds):
            named = ", ".join(str(each.pid) for each in users.sandbox if each.is_alive)
            raise Busy(
                f"a step of a process that was killed still runs in {self._folder}: {named}",
                hint="end these processes and try again",
            )

    def _users(self) -> Users | None:
        """Return who used the folder last, of whatever session; None if nobody knows."""
        try:
            noted: Any = json.loads(self._file.read_text(encoding="utf-8"))
            host, *sandbox = (ProcessId(int(pid), str(born)) for pid, born in noted["processes"])
            return Users(host, tuple(sandbox), bool(noted["running"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def left(self) -> Left | None:
        """Return how this session left the folder; None if it did not, or nobody knows."""
        try:
            noted: Any = json.loads(self._file.read_text(encoding="utf-8"))
            if any(noted[name] != mine for name, mine in self._identity().items()):
                return None
            is_same_folder = noted["number"] == self._number()
            return Left(str(noted["commit"]), bool(noted["running"]) and is_same_folder)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def note(self, *, is_running: bool = False) -> None:
        """Note that the folder is what the last commit says, or that a step is changing it."""
        head = self._state.head
        said = {
            **self._identity(),
            "number": self._number(),
            "commit": "" if head is None else head.id,
            "running": is_running,
            "processes": self._processes(),
        }
        with suppress(OSError):
            if not self._is_begun:
                self._begin()
            _overwrite(self._file, json.dumps(said).encode())

    def _processes(self) -> list[ProcessId]:
        """Return this process, and those that end last in its sandbox; nothing if nobody knows."""
        host = _myself(os.getpid())
        return [] if host is None else [host, *self._sandbox]

    def _begin(self) -> None:
        if not self._file.exists():
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _forget_some(self._file)
        self._is_begun = True

    def _identity(self) -> dict[str, Any]:
        salt = str(self._state.cells.salt)
        return {"folder": os.fspath(self._folder), "repo": salt, "ref": self._state.ref}

    def _number(self) -> int:
        try:
            return self._folder.stat().st_ino
        except OSError:
            return 0


@functools.lru_cache(maxsize=1)
def _myself(pid: int) -> ProcessId | None:
    return identify(pid)


def _overwrite(file: Path, note: bytes) -> None:
    """Write a note in place: who finds half of one knows nothing, and removes nothing.

    Its length stays the same. A file that is cut or replaced is written to the disk at once by some
    systems, which takes longer than many a step.
    """
    padded = note.ljust(-(-len(note) // _ROOM_BYTES) * _ROOM_BYTES)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.pwrite(descriptor, padded, 0)
        if os.fstat(descriptor).st_size != len(padded):
            os.ftruncate(descriptor, len(padded))
    finally:
        os.close(descriptor)


def _notes() -> Path:
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    base = given if given.is_absolute() else Path(os.path.expanduser("~")) / ".local" / "state"  # noqa: PTH111
    return base / "otolith" / "folders"


def _forget_some(mine: Path) -> None:
    """Remove notes about folders that are no more, of those next to a new one."""
    notes = sorted(mine.parent.glob("*.json"), key=lambda file: (file.name < mine.name, file.name))
    for file in notes[:_LOOKED_AT]:
        with suppress(OSError, ValueError, KeyError, TypeError):
            folder = json.loads(file.read_text(encoding="utf-8"))["folder"]
            if not Path(folder).exists():
                file.unlink()
