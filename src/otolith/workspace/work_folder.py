"""The work folder as part of a state: what is in it is kept, and put back.

    files/PATH    {"data": bytes, "mode": int}       a file; of its mode, whether it can be run
                  {"link": text}                     a symbolic link
                  {"folder": true}                   a folder with nothing in it

Files are read without following links, so a link that leads out of the folder is kept as a link
and nothing more. A file whose size, time, number and kind are those of the last look is not read
again, unless it changed so recently that the clock may not tell. What cannot be kept (a socket, a
file that is too long) is left where it is.

The work folder of a session, and the rules by which nothing in it gets lost.

A folder may be the user's, and users put files into those of a session too. So

1. what is in the folder and in no commit is a *stranger*, and never removed unless told to;
2. where the state has no files yet, or is as this session left the folder, strangers are the
   user's, and taken in: by a commit of their own, so that `undo` of a step leaves them alone;
3. anywhere else somebody has to say what to do with them;
4. what a step has changed before it was cut off is the step's. It is moved aside, into a folder
   beside this one.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple, TypeAlias
from urllib.parse import quote

from otolith.core import WORKSPACE, Branch, StateReader, digest
from otolith.errors import Corrupt, Invalid, NotFound
from otolith.workspace.disk_watch import FOLDER_BYTES, taken_bytes
from otolith.workspace.folder_ownership import Left, Ownership
from otolith.workspace.sandbox import ProcessId
from otolith.workspace.step import Files

PLACE = (WORKSPACE, "files")
KEPT_FILE_BYTES = 1 << 30
"""A longer file is left where it is, and is in no state."""

_RACY_NANOSECONDS = 50_000_000
_LONGEST_LINK = 8192
_SKIPPED = frozenset({"__pycache__", ".ipynb_checkpoints"})


class Seen(NamedTuple):
    """What a file looked like, and the cell that its content has."""

    size: int
    changed: int
    number: int
    mode: int
    when: int
    cell: bytes


class Look(NamedTuple):
    """What a state has of a folder, and what is in it: cells by name; and what cannot be kept."""

    before: dict[str, bytes]
    found: dict[str, bytes]
    skipped: dict[str, str]
    cached: dict[str, os.stat_result]
    taken_bytes: int

    @property
    def files(self) -> Files:
        """What is different."""
        before, found, skipped = self[:3]
        changed = (name for name in found.keys() & before.keys() if found[name] != before[name])
        return Files(
            tuple(sorted(found.keys() - before.keys())),
            tuple(sorted(changed)),
            tuple(sorted(before.keys() - found.keys() - skipped.keys())),
            skipped,
        )


class Folder:
    """A folder, and what it looked like when it was last the same as a state."""

    def __init__(self, path: Path, *, limit_bytes: int = KEPT_FILE_BYTES) -> None:
        self.path = path
        self._limit = limit_bytes
        self._seen: dict[str, Seen] = {}

    def look(self, state: Branch) -> Look:
        """Compare what is in the folder with what a state has of it."""
        return self._compare(state, *self._list())

    def look_within(self, state: Branch, limit_bytes: int) -> Look | None:
        """Do the same; None if the folder takes more than a limit, and then no file was read."""
        listed, taken = self._list()
        return None if taken > limit_bytes else self._compare(state, listed, taken)

    def _compare(self, state: Branch, listed: list[tuple[str, os.stat_result]], taken: int) -> Look:
        cached = {name: status for name, status in listed if _is_cache(name, status)}
        look = Look(files_in(state), {}, {}, cached, taken)
        for name, status in listed:
            if name not in cached:
                cell = self._cell(state, name, status, look.skipped, look.before.get(name))
                if cell is not None:
                    look.found[name] = cell
        for name in look.before.keys() - look.found.keys() - look.skipped.keys():
            if _is_link_out(state, name, look.before[name]):
                look.found[name] = look.before[name]  # it was never put there
        return look

    def stage(self, state: Branch, look: Look) -> Files:
        """Make a state have what was found; return what is different."""
        files = look.files
        for name in files.removed:
            state.write_reserved((*PLACE, name), None)
        for name in (*files.added, *files.changed):
            state.write_reserved((*PLACE, name), look.found[name])
        return files

    def restore(
        self,
        state: Branch,
        *,
        keep: Mapping[str, bytes] | None = None,
        aside: Path | None = None,
        unkept: Collection[str] | None = None,
    ) -> Files:
        """Make the folder what a state says; `keep` stays as it is there, whatever a state says.

        What has to go is moved `aside`, if there is such a place. What no state keeps stays where
        it is; if `unkept` names all of that which is to stay, other such things go as well.
        """
        wanted = files_in(state) | dict(keep or {})
        check_places(state, wanted)
        listed = dict(self._list()[0])
        here = {name: status for name, status in listed.items() if not _is_cache(name, status)}
        unknown = sorted(here.keys() - wanted.keys(), reverse=True)
        removed = [name for name in unknown if _unkept(name, here[name], self._limit) is None]
        if unkept is not None:
            gone = listed.keys() - wanted.keys() - set(unkept) - set(removed)
            for name in sorted(gone, reverse=True):
                _remove(self.path / name, listed[name], self.path, None)
        added, changed = list[str](), list[str]()
        for name in removed:
            _remove(self.path / name, here[name], self.path, aside)
        for name, cell in sorted(wanted.items()):
            if name in here and self._cell(state, name, here[name], {}, cell) == cell:
                continue
            content = _parse(name, state.cells.load(cell))
            if isinstance(content, str) and _leaves(name, content):
                continue  # it stays in the state, and leads nowhere from here
            (changed if name in here else added).append(name)
            if name in here and aside is not None:
                _remove(self.path / name, here[name], self.path, aside)
            _write(self.path / name, content, self.path)
            self._note(name, os.lstat(self.path / name), cell)
        return Files(tuple(added), tuple(changed), tuple(sorted(removed)))

    def _list(self) -> tuple[list[tuple[str, os.stat_result]], int]:
        """Return everything in the folder but folders that have something in them.

        And what all of it takes; a file with two names counts once.
        """
        listed: list[tuple[str, os.stat_result]] = []
        taken, seen = 0, set[int]()
        waiting = [self.path]
        while waiting:
            folder = waiting.pop()
            taken += FOLDER_BYTES
            for name, status in self._list_one(folder, waiting):
                listed.append((name, status))
                if status.st_nlink < 2 or status.st_ino not in seen:
                    taken += taken_bytes(status, kept_bytes=self._limit)
                    seen.add(status.st_ino)
        return listed, taken

    def _list_one(self, folder: Path, waiting: list[Path]) -> Iterator[tuple[str, os.stat_result]]:
        """Yield what is in a folder, or the folder if it is empty; those in it have to wait."""
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            return
        if not entries and folder != self.path:
            yield self._name(folder), os.lstat(folder)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
                continue
            with suppress(FileNotFoundError):  # somebody is at work there
                yield self._name(Path(entry.path)), entry.stat(follow_symlinks=False)

    def _name(self, path: Path) -> str:
        return path.relative_to(self.path).as_posix()

    def _cell(
        self,
        state: Branch,
        name: str,
        status: os.stat_result,
        skipped: dict[str, str],
        kept: bytes | None,
    ) -> bytes | None:
        """Return the cell of what is in the folder; `kept` is the one that is in the state."""
        seen = self._seen.get(name)
        # A cell that is not in the state may have been dropped with its content since.
        if seen is not None and seen.cell == kept and _is_unchanged(seen, status):
            return seen.cell
        why = _unkept(name, status, self._limit)
        if why is not None:
            skipped[name] = why
            return None
        try:
            content = self._content(name, status)
        except OSError as error:
            skipped[name] = str(error.strerror)
            return None
        cell = state.cells.settle(state.cells.put(content))
        self._note(name, status, cell)
        return cell

    def _content(self, name: str, status: os.stat_result) -> dict[str, Any]:
        path = self.path / name
        if stat.S_ISLNK(status.st_mode):
            return {"link": str(path.readlink())}
        if stat.S_ISDIR(status.st_mode):
            return {"folder": True}
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(self._limit + 1)
        return {"data": data, "mode": 0o755 if status.st_mode & 0o100 else 0o644}

    def _note(self, name: str, status: os.stat_result, cell: bytes) -> None:
        self._seen[name] = Seen(
            status.st_size, status.st_mtime_ns, status.st_ino, status.st_mode, time.time_ns(), cell
        )


def files_in(state: StateReader) -> dict[str, bytes]:
    """Return the cells of the files that a state has.

    Raises:
        Corrupt: one has a name that leads elsewhere. A store may come from anywhere.
    """
    cell = state.cell_at(PLACE)
    if cell is None:
        return {}
    cells, unkey = state.cells, state.cells.encoding.unkey
    return {_checked(unkey(key)): cells.settle(part) for key, part in cells.entries(cell)}


def _checked(name: object) -> str:
    """Return the name of a file if it can only mean something below the work folder."""
    parts = name.split("/") if isinstance(name, str) else [""]
    is_plain = not any(part in ("", ".", "..") or "\0" in part for part in parts)
    if os.sep != "/" or os.altsep:
        is_plain = is_plain and not any({os.sep, ":"}.intersection(part) for part in parts)
    if not isinstance(name, str) or not is_plain:
        raise Corrupt(
            f"the state names a file {name!r}, which would be outside of the work folder",
            hint="do not trust this store; remove the entry, or go back to a commit without it",
        )
    return name


def _is_cache(name: str, status: os.stat_result) -> bool:
    """Tell whether something is in a folder that is never kept, or is one."""
    folders = name.split("/")
    if not stat.S_ISDIR(status.st_mode):
        folders.pop()
    return not _SKIPPED.isdisjoint(folders)


def _is_link_out(state: StateReader, name: str, cell: bytes) -> bool:
    if state.cells.full_size(cell) > _LONGEST_LINK:
        return False
    content = _parse(name, state.cells.load(cell))
    return isinstance(content, str) and _leaves(name, content)


def _leaves(name: str, target: str) -> bool:
    """Tell whether a link leads out of the work folder."""
    parts = name.split("/")[:-1] + target.split("/")
    depth = 0
    for part in parts:
        depth += {"": 0, ".": 0, "..": -1}.get(part, 1)
        if depth < 0:
            return True
    return target.startswith("/") or "\0" in target


def _unkept(name: str, status: os.stat_result, limit_bytes: int) -> str | None:
    """Say why something is not kept; None if it can be."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return "its name is no text"
    if stat.S_ISLNK(status.st_mode) or stat.S_ISDIR(status.st_mode):
        return None
    if not stat.S_ISREG(status.st_mode):
        return "it is neither a file nor a link"
    if status.st_size > limit_bytes:
        return f"it is longer than {limit_bytes:,} bytes"
    return None


def _is_unchanged(seen: Seen, status: os.stat_result) -> bool:
    looks = status.st_size, status.st_mtime_ns, status.st_ino, status.st_mode
    is_settled = seen.changed < seen.when - _RACY_NANOSECONDS
    return looks == (seen.size, seen.changed, seen.number, seen.mode) and is_settled


def _remove(path: Path, status: os.stat_result, root: Path, aside: Path | None) -> None:
    try:
        if stat.S_ISDIR(status.st_mode):
            path.rmdir()
        elif aside is None:
            path.unlink()
        else:
            goal = aside / path.relative_to(root)
            goal.parent.mkdir(parents=True, exist_ok=True)
            path.replace(goal)
        for parent in path.relative_to(root).parents[:-1]:
            (root / parent).rmdir()  # only if nothing is left in it
    except OSError:
        return


def _write(path: Path, content: File, root: Path) -> None:
    """Put a file back; what is in its way, and links on the way, are removed first."""
    _clear_way(path, root)
    if content is None:
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink() or path.exists():
        _remove_all(path)
    if isinstance(content, str):
        path.symlink_to(content)
        return
    data, can_run = content
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o755 if can_run else 0o644), "wb") as file:
        file.write(data)


File: TypeAlias = tuple[bytes, bool] | str | None
"""Bytes and whether they can be run; where a link leads to; or nothing, for an empty folder."""


def _parse(name: str, content: object) -> File:
    """Return what a state has of a file, whatever else may stand there.

    Raises:
        Corrupt: it is no file.
    """
    match content:
        case {"folder": True}:
            return None
        case {"link": str(target)}:
            return target
        case {"data": bytes(data), "mode": int(mode)}:
            return data, bool(mode & 0o100)
    raise Corrupt(f"the state has no file at {name!r}", hint="run `otolith fsck --level deep`")


def _clear_way(path: Path, root: Path) -> None:
    for parent in reversed(path.relative_to(root).parents[:-1]):
        here = root / parent
        if here.is_symlink() or (here.exists() and not here.is_dir()):
            here.unlink()


def _remove_all(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


_LONGEST_NAME = 200


def folder_name(part: str) -> str:
    """Return the name of a folder for a session or a branch: none is special, none too long."""
    name = quote(part, safe="")
    if not name.strip("."):
        name = name.replace(".", "%2E")
    if len(name) > _LONGEST_NAME:
        name = (
            f"{name[: _LONGEST_NAME - 40]}+{digest(part.encode(errors='surrogatepass')).hex()[:32]}"
        )
    return name


def check_places(state: Branch, files: Mapping[str, bytes]) -> None:
    """Refuse files that no folder can hold together: two branches made one a file, one a folder.

    Raises:
        Invalid: there are such.
    """
    for name in files:
        for place in map(str, PurePosixPath(name).parents):
            cell = files.get(place)
            if cell is not None and _parse(place, state.cells.load(cell)) is not None:
                raise Invalid(
                    f"{place} is a file on one branch and a folder with {name} on the other",
                    hint="undo the merge, rename one of the two, and merge again",
                )


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


UntrackedFiles: TypeAlias = Literal["refuse", "adopt", "discard"]
"""What becomes of files that are in no commit: an error, part of the state, or nothing."""

_SHOWN = 5


class WorkFolder:
    """A folder that is what a state says, but for what somebody puts there."""

    def __init__(self, path: Path, state: Branch) -> None:
        self._state = state
        self._folder = Folder(path)
        self._ownership = Ownership(path, state)
        self._is_settled = False
        self._files: bytes | None = None  # what the state said of the folder when they agreed
        self._unkept: set[str] | None = None  # what no state keeps, before the step
        self._taken_bytes = 0  # before the step
        self.path = path

    @property
    def taken_bytes(self) -> int:
        """What the folder takes before a step."""
        return self._taken_bytes

    @property
    def unfinished_folder(self) -> Path:
        """Where what a step left unfinished is moved to; no branch has a folder of that name."""
        return self.path.with_name(f"{self.path.name}@unfinished")

    def settle(self, strangers: UntrackedFiles = "refuse") -> Files:
        """Make folder and state agree, before a step.

        Raises:
            Invalid: there are strangers, and nobody has said what to do with them.
        """
        if strangers not in ("refuse", "adopt", "discard"):
            hint = "use 'refuse', 'adopt' or 'discard'"
            raise Invalid(f"strangers={strangers!r} is not known", hint=hint)
        files = self.move_in(strangers)
        self._take_in()
        return files

    def move_in(self, strangers: UntrackedFiles = "refuse") -> Files:
        """Make the folder what the state says, once; strangers that may stay do so."""
        if self._is_settled and self._state.cells.same(self._files, self._state.cell_at(PLACE)):
            return Files()
        self._ownership.wait_for_predecessor()
        left = self._ownership.left()
        was_cut_off = left is not None and left.was_running
        keep = {} if was_cut_off or strangers == "discard" else self._strangers(left)
        if strangers == "refuse":
            self._check(keep, left)
        if was_cut_off and self.unfinished_folder.exists():
            shutil.rmtree(self.unfinished_folder)
        aside = self.unfinished_folder if was_cut_off else None
        files = self._folder.restore(self._state, keep=keep, aside=aside)
        self._is_settled = True
        self._agree()
        return files

    def _agree(self) -> None:
        """Note that the folder is what the state says."""
        self._files = self._state.cell_at(PLACE)
        self._ownership.note()

    def enter(self) -> None:
        """Note that a step is about to change the folder."""
        self._ownership.note(is_running=True)

    def begin_sandbox(self, last_processes: list[ProcessId]) -> None:
        """Note the processes of a new sandbox, before the code of a step runs in it."""
        self._ownership.begin_sandbox(last_processes)

    def capture(self, *, limit_bytes: int | None = None) -> Files | None:
        """Stage what a step did; None if it made the folder grow by more than a limit."""
        if limit_bytes is None:
            look: Look | None = self._folder.look(self._state)
        else:
            look = self._folder.look_within(self._state, self._taken_bytes + limit_bytes)
        if look is None:
            return None
        files = self._folder.stage(self._state, look)
        self._files = self._state.cell_at(PLACE)
        return files

    def leave(self) -> None:
        """Note that all that is in the folder is in the last commit.

        That may have more: what others committed during the step was merged into it.
        """
        if not self._state.cells.same(self._files, self._state.cell_at(PLACE)):
            self._folder.restore(self._state, unkept=self._unkept)
        self._agree()

    def take_back(self) -> Files:
        """Make the folder what it was before a step of which nothing is kept."""
        files = self._folder.restore(self._state, unkept=self._unkept)
        self._agree()
        return files

    def edited(self) -> dict[str, bytes]:
        """Return what is in the folder and not, or not like that, in the state."""
        look = self._folder.look(self._state)
        return {name: cell for name, cell in look.found.items() if look.before.get(name) != cell}

    def follow(self, keep: dict[str, bytes]) -> None:
        """Make the folder what the state says after it has moved, but for what is the user's."""
        self._folder.restore(self._state, keep=keep)
        self._agree()

    def _strangers(self, left: Left | None) -> dict[str, bytes]:
        """Return what is neither in the state nor in the commit that the folder was left at."""
        known = self._files_of(left)
        return {name: cell for name, cell in self.edited().items() if known.get(name) != cell}

    def _files_of(self, left: Left | None) -> dict[str, bytes]:
        try:
            return {} if left is None or not left.commit else files_in(self._state.at(left.commit))
        except NotFound:
            return {}

    def _check(self, found: dict[str, bytes], left: Left | None) -> None:
        """Refuse strangers, unless there is no doubt that they are to stay."""
        head = self._state.head
        is_at_home = left is not None and head is not None and left.commit == head.id
        names = sorted(name for name in found if not (self.path / name).is_dir())
        if not names or is_at_home or not files_in(self._state):
            return
        shown = ", ".join(names[:_SHOWN])
        more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
        raise Invalid(
            f"{self.path} has files that are in no commit of this session: {shown}{more}",
            hint='restore(strangers="adopt") keeps them and makes them part of the state,'
            ' restore(strangers="discard") removes them',
        )

    def _take_in(self) -> None:
        """Commit what somebody has put into the folder, unless other edits wait to be committed."""
        look = self._folder.look(self._state)
        self._unkept, self._taken_bytes = {*look.skipped, *look.cached}, look.taken_bytes
        files = look.files
        names = [*files.added, *files.changed, *files.removed]
        if not names:
            return
        is_clean = self._state.is_clean
        self._folder.stage(self._state, look)
        if is_clean:
            shown = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
            self._state.commit(f"files from outside: {shown}", kind="files")
            self._agree()
