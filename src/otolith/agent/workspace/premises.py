"""The work folder of a session, and the rules by which nothing in it gets lost.

A folder may be the user's, and users put files into those of a session too. So

1. what is in the folder and in no commit is a *stranger*, and never removed unless told to;
2. where the state has no files yet, or is as this session left the folder, strangers are the
   user's, and taken in: by a commit of their own, so that `undo` of a step leaves them alone;
3. anywhere else somebody has to say what to do with them;
4. what a step has changed before it was cut off is the step's. It is moved aside, into a folder
   beside this one.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal, TypeAlias

from otolith.agent.workspace.folder import Folder, files_in
from otolith.agent.workspace.ownership import Left, Ownership
from otolith.agent.workspace.step import Files
from otolith.core import Branch
from otolith.errors import Invalid, NotFound

Strangers: TypeAlias = Literal["refuse", "adopt", "discard"]
"""What becomes of files that are in no commit: an error, part of the state, or nothing."""

_SHOWN = 5


class Premises:
    """A folder that is what a state says, but for what somebody puts there."""

    def __init__(self, path: Path, state: Branch) -> None:
        self._state = state
        self._folder = Folder(path)
        self._ownership = Ownership(path, state)
        self._is_settled = False
        self.path = path

    @property
    def debris(self) -> Path:
        """Where what a step left unfinished is moved to; no branch has a folder of that name."""
        return self.path.with_name(f"{self.path.name}@unfinished")

    def settle(self, strangers: Strangers = "refuse") -> Files:
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

    def move_in(self, strangers: Strangers = "refuse") -> Files:
        """Make the folder what the state says, once; strangers that may stay do so."""
        if self._is_settled:
            return Files()
        left = self._ownership.left()
        was_cut_off = left is not None and left.was_running
        keep = {} if was_cut_off or strangers == "discard" else self._strangers(left)
        if strangers == "refuse":
            self._check(keep, left)
        if was_cut_off and self.debris.exists():
            shutil.rmtree(self.debris)
        aside = self.debris if was_cut_off else None
        files = self._folder.restore(self._state, keep=keep, aside=aside)
        self._is_settled = True
        self._ownership.note()
        return files

    def enter(self) -> None:
        """Note that a step is about to change the folder."""
        self._ownership.note(is_running=True)

    def capture(self) -> Files:
        """Stage what a step did."""
        return self._folder.capture(self._state)

    def leave(self) -> None:
        """Note that all that is in the folder is in the last commit."""
        self._ownership.note()

    def take_back(self) -> Files:
        """Make the folder what it was before a step of which nothing is kept."""
        files = self._folder.restore(self._state)
        self._ownership.note()
        return files

    def edited(self) -> dict[str, bytes]:
        """Return what is in the folder and not, or not like that, in the state."""
        before, found, _ = self._folder.look(self._state)
        return {name: cell for name, cell in found.items() if before.get(name) != cell}

    def follow(self, keep: dict[str, bytes]) -> None:
        """Make the folder what the state says after it has moved, but for what is the user's."""
        self._folder.restore(self._state, keep=keep)
        self._ownership.note()

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
        files = look.files
        names = [*files.added, *files.changed, *files.removed]
        if not names:
            return
        is_clean = self._state.is_clean
        self._folder.stage(self._state, look)
        if is_clean:
            shown = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
            self._state.commit(f"files from outside: {shown}", kind="files")
            self._ownership.note()
