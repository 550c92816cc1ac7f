"""The work folder of a session: the rules by which nothing in it gets lost, and who uses it.

A folder may be the user's, and users put files into those of a session too. So

1. files that are in the folder and in no commit are *untracked*, and only removed on request;
2. where the state has no files yet, or is as this session left the folder, untracked files are the
   user's: they are committed by themselves, so that `undo` of a step does not touch them;
3. anywhere else the caller has to say what to do with them;
4. what a step has changed before it was cut off is the step's. It is moved aside, into a folder
   beside this one.

Which session left a folder, at which commit, and which processes use it is noted in a file:

    otolith/folders/DIGEST.json    under $XDG_STATE_HOME, or else ~/.local/state
        {"folder": path, "number": inode, "repo": salt, "ref": text, "commit": id, "running": bool,
         "processes": [[pid, born], ...]}    the host, then those that end last in its sandbox

The file is on this machine and not in the state: a state goes to other machines, a folder does not.
It is out of reach for code in a sandbox that hides files. Where it cannot be written, nothing is
known of the folder, and nothing in it is removed.

When a host is killed, its sandbox ends with it, but a little later, and until then a step continues
to write. So the processes that end last are noted: the next session waits for them, and ends them
if they do not end by themselves. They are noted before the first code of a step runs, and nothing
that the code does changes which they are: they are the process whose end is the end of all others
in its sandbox, by the kernel (bubblewrap), by the program that waits for a container, or by the
fork server, which ends last what it has forked.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias
from urllib.parse import quote

from otolith.core import Branch, digest
from otolith.errors import Busy, Invalid, NotFound
from otolith.workspace.folder_files import FILES, FolderFiles, files_in
from otolith.workspace.sandbox import ProcessId, end_processes, identify
from otolith.workspace.step import FileChanges

UntrackedFiles: TypeAlias = Literal["refuse", "adopt", "discard"]
"""What to do with files that are in no commit: raise, commit them, or remove them."""

_LONGEST_NAME = 200
_SHOWN = 5
_PATIENCE_SECONDS = 10.0
_NOTES_CLEANED = 50
_NOTE_BYTES = 1024
_UNREADABLE = (OSError, ValueError, KeyError, TypeError)


def folder_name(part: str) -> str:
    """Return the name of a folder for a session or a branch: never special, never too long."""
    name = quote(part, safe="")
    if not name.strip("."):
        name = name.replace(".", "%2E")
    if len(name) > _LONGEST_NAME:
        hashed = digest(part.encode(errors="surrogatepass")).hex()[:32]
        name = f"{name[: _LONGEST_NAME - 40]}+{hashed}"
    return name


def branch_folder(base: Path, *parts: str) -> Path:
    """Return the folder of a branch, below the one beside its store.

    Raises:
        Invalid: a link, or something else than a folder, is on the way: whoever made the store
            would have chosen what steps read and write.
    """
    path = base
    for name in ("", *map(folder_name, parts)):
        path = path / name
        with suppress(FileNotFoundError, NotADirectoryError):
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                raise Invalid(
                    f"{path} is not a folder", hint="remove it, or choose another place by folder="
                )
    return path


class WorkFolder:
    """A folder that is what a state says, except for what users put there."""

    def __init__(self, path: Path, state: Branch) -> None:
        self.path = path
        self._state = state
        self._files = FolderFiles(path)
        self._ownership = FolderOwnership(path, state)
        self._is_entered = False
        self._agreed: bytes | None = None  # the file table when folder and state were last equal
        self._unstored: set[str] | None = None  # what no state stores, before the step
        self.disk_bytes = 0  # before the step

    @property
    def unfinished_folder(self) -> Path:
        """The folder for what a step left unfinished; no branch has a folder of that name."""
        return self.path.with_name(f"{self.path.name}@unfinished")

    def synchronize(self, untracked: UntrackedFiles = "refuse") -> FileChanges:
        """Make folder and state equal, before a step.

        Raises:
            Invalid: there are untracked files, and the caller has not said what to do with them.
        """
        if untracked not in ("refuse", "adopt", "discard"):
            hint = "use 'refuse', 'adopt' or 'discard'"
            raise Invalid(f"untracked={untracked!r} is not known", hint=hint)
        changes = self.enter(untracked)
        self._commit_edits()
        return changes

    def enter(self, untracked: UntrackedFiles = "refuse") -> FileChanges:
        """Make the folder what the state says, once; untracked files that may stay do so."""
        if self._is_entered and self._state.cells.same(self._agreed, self._state.cell_at(FILES)):
            return FileChanges()
        self._ownership.wait_for_predecessor()
        previous = self._ownership.previous_use()
        was_cut_off = previous is not None and previous.was_running
        keep = {} if was_cut_off or untracked == "discard" else self._untracked(previous)
        if untracked == "refuse":
            self._check_untracked(keep, previous)
        if was_cut_off and self.unfinished_folder.exists():
            shutil.rmtree(self.unfinished_folder)
        aside = self.unfinished_folder if was_cut_off else None
        changes = self._files.restore(self._state, keep=keep, aside=aside)
        self._is_entered = True
        self._note_equal()
        return changes

    def begin_step(self) -> None:
        """Note that a step is about to change the folder."""
        self._ownership.note(is_running=True)

    def begin_sandbox(self, last_processes: list[ProcessId]) -> None:
        """Note the processes of a new sandbox, before the code of a step runs in it."""
        self._ownership.sandbox = last_processes
        self._ownership.note(is_running=True)

    def capture(self, *, limit_bytes: int | None = None) -> FileChanges | None:
        """Stage what a step did; None if it made the folder grow by more than a limit."""
        listing = self._files.listing()
        if limit_bytes is not None and listing.disk_bytes > self.disk_bytes + limit_bytes:
            return None  # and no file was read
        changes = self._files.stage(self._state, self._files.compare(self._state, listing))
        self._agreed = self._state.cell_at(FILES)
        return changes

    def step_committed(self) -> None:
        """Note that all that is in the folder is in the last commit.

        That may have more: what others committed during the step was merged into it.
        """
        if not self._state.cells.same(self._agreed, self._state.cell_at(FILES)):
            self._files.restore(self._state, unstored=self._unstored)
        self._note_equal()

    def undo_step(self) -> FileChanges:
        """Make the folder what it was before a step of which nothing is stored."""
        changes = self._files.restore(self._state, unstored=self._unstored)
        self._note_equal()
        return changes

    def edited(self) -> dict[str, bytes]:
        """Return the cells of files that are different, or not there, in the state."""
        found = self._files.compare(self._state)
        return {name: cell for name, cell in found.found.items() if found.stored.get(name) != cell}

    def follow(self, keep: dict[str, bytes]) -> None:
        """Make the folder what the state says after it has moved, except for `keep`."""
        self._files.restore(self._state, keep=keep)
        self._note_equal()

    def _note_equal(self) -> None:
        self._agreed = self._state.cell_at(FILES)
        self._ownership.note()

    def _untracked(self, previous: PreviousUse | None) -> dict[str, bytes]:
        """Return the files that are in neither the state nor the commit the folder was left at."""
        known: dict[str, bytes] = {}
        if previous is not None and previous.commit:
            with suppress(NotFound):
                known = files_in(self._state.at(previous.commit))
        return {name: cell for name, cell in self.edited().items() if known.get(name) != cell}

    def _check_untracked(self, found: dict[str, bytes], previous: PreviousUse | None) -> None:
        """Refuse untracked files, unless it is certain that they are to stay."""
        head = self._state.head
        is_unmoved = previous is not None and head is not None and previous.commit == head.id
        names = sorted(name for name in found if not (self.path / name).is_dir())
        if not names or is_unmoved or not files_in(self._state):
            return
        shown = ", ".join(names[:_SHOWN])
        more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
        raise Invalid(
            f"{self.path} has files that are in no commit of this session: {shown}{more}",
            hint='restore(untracked="adopt") keeps them and makes them part of the state,'
            ' restore(untracked="discard") removes them',
        )

    def _commit_edits(self) -> None:
        """Commit what users have done in the folder, unless other changes are staged."""
        comparison = self._files.compare(self._state)
        self._unstored = {*comparison.skipped, *comparison.cached}
        self.disk_bytes = comparison.disk_bytes
        changes = comparison.changes
        names = [*changes.added, *changes.changed, *changes.removed]
        if not names:
            return
        is_clean = self._state.is_clean
        self._files.stage(self._state, comparison)
        if is_clean:
            shown = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
            self._state.commit(f"files from outside: {shown}", kind="files")
            self._note_equal()


class PreviousUse(NamedTuple):
    """How this session left a folder: at a commit, and whether a step was running."""

    commit: str
    was_running: bool


class FolderOwnership:
    """The note about one folder; `sandbox` are the processes that end last in the current one."""

    def __init__(self, folder: Path, state: Branch) -> None:
        self._folder = folder
        self._state = state
        given = Path(os.environ.get("XDG_STATE_HOME", ""))
        home = Path(os.path.expanduser("~"))  # noqa: PTH111  a Path would raise without HOME
        base = given if given.is_absolute() else home / ".local" / "state"
        name = digest(os.fsencode(folder)).hex()[:32]
        self._file = base / "otolith" / "folders" / f"{name}.json"
        self._is_created = False
        self.sandbox: list[ProcessId] = []

    def wait_for_predecessor(self, *, patience_seconds: float = _PATIENCE_SECONDS) -> None:
        """Return when no process is left in the sandbox of a host that was killed.

        Raises:
            Busy: such a process cannot be ended, or a host that lives runs a step here.
        """
        try:
            noted = self._read()
            host, *sandbox = (ProcessId(int(pid), str(born)) for pid, born in noted["processes"])
            is_running = bool(noted["running"])
        except _UNREADABLE:
            return
        if host.pid == os.getpid():
            return
        if host.is_alive:
            if is_running:
                raise Busy(
                    f"process {host.pid} runs a step in {self._folder}",
                    hint="wait until it ends, or fork the session to work beside it",
                )
            return
        if not end_processes(sandbox, patience_seconds=patience_seconds):
            alive = ", ".join(str(each.pid) for each in sandbox if each.is_alive)
            raise Busy(
                f"a step of a process that was killed still runs in {self._folder}: {alive}",
                hint="end these processes and try again",
            )

    def previous_use(self) -> PreviousUse | None:
        """Return how this session left the folder; None if it did not, or that is unknown."""
        try:
            noted = self._read()
            if any(noted[name] != mine for name, mine in self._identity().items()):
                return None
            is_same_folder = noted["number"] == self._inode()
            return PreviousUse(str(noted["commit"]), bool(noted["running"]) and is_same_folder)
        except _UNREADABLE:
            return None

    def note(self, *, is_running: bool = False) -> None:
        """Note that the folder is what the last commit says, or that a step is changing it."""
        head = self._state.head
        noted = {
            **self._identity(),
            "number": self._inode(),
            "commit": "" if head is None else head.id,
            "running": is_running,
            "processes": self._processes(),
        }
        with suppress(OSError):
            if not self._is_created and not self._file.exists():
                self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                _remove_stale_notes(self._file)
            self._is_created = True
            _overwrite(self._file, json.dumps(noted).encode())

    def _read(self) -> Any:
        return json.loads(self._file.read_text(encoding="utf-8"))

    def _processes(self) -> list[ProcessId]:
        host = _this_process(os.getpid())
        return [] if host is None else [host, *self.sandbox]

    def _identity(self) -> dict[str, Any]:
        salt = str(self._state.cells.salt)
        return {"folder": os.fspath(self._folder), "repo": salt, "ref": self._state.ref}

    def _inode(self) -> int:
        """Return the inode of the folder, which tells a replaced one apart; 0 if it is gone."""
        try:
            return self._folder.stat().st_ino
        except OSError:
            return 0


@functools.lru_cache(maxsize=1)
def _this_process(pid: int) -> ProcessId | None:
    return identify(pid)


def _overwrite(file: Path, note: bytes) -> None:
    """Write a note in place: a reader that finds half of one knows nothing, and removes nothing.

    Its length stays the same. A file that is cut or replaced is written to the disk at once by some
    systems, which takes longer than many a step.
    """
    padded = note.ljust(-(-len(note) // _NOTE_BYTES) * _NOTE_BYTES)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.pwrite(descriptor, padded, 0)
        if os.fstat(descriptor).st_size != len(padded):
            os.ftruncate(descriptor, len(padded))
    finally:
        os.close(descriptor)


def _remove_stale_notes(mine: Path) -> None:
    """Remove notes about folders that no longer exist, of those next to a new one."""
    notes = sorted(mine.parent.glob("*.json"), key=lambda file: (file.name < mine.name, file.name))
    for file in notes[:_NOTES_CLEANED]:
        with suppress(*_UNREADABLE):
            if not Path(json.loads(file.read_text(encoding="utf-8"))["folder"]).exists():
                file.unlink()
