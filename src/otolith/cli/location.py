"""Where the store and the branch at hand are found, and opened.

    .otolith/             looked for here and upwards, like .git
        place.json        {"store": …, "session": …, "branch": …}
        store.db          the store, unless it is elsewhere

A store's relative path is relative to the directory that holds `.otolith`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import unquote

from otolith import opening
from otolith import session as session_room
from otolith.cli.errors import worded
from otolith.cli.options import GlobalOptions
from otolith.codecs import Codecs
from otolith.core import BareRepo, Branch, Commit
from otolith.errors import Corrupt, Denied, Invalid, RefNotFound, StoreNotFound

FOLDER = ".otolith"
FILE = "place.json"
STORE = f"{FOLDER}/store.db"

_MOST_LISTED = 5
_SQLITE = "sqlite:"
_SCHEME = re.compile(r"(?!sqlite:(?!//))[A-Za-z][\w+.-]+:")  # anything but sqlite:relative


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """A store, and what of it is at hand. `root` is the directory that holds `.otolith`."""

    store: str
    session: str | None
    branch: str
    root: Path | None = None
    is_named: bool = False
    """Whether somebody has named the session just now."""

    @property
    def url(self) -> str:
        """The store's address, as seen from anywhere."""
        if self.root is None or _SCHEME.match(self.store):
            return self.store
        path = self.store
        if path.startswith(_SQLITE):
            path = unquote(path.removeprefix(_SQLITE))
        return str(self.root / path)


def find(asked: GlobalOptions) -> StoreLocation:
    """Return the place that the options name, or the nearest `.otolith`.

    Raises:
        StoreNotFound: there is neither.
    """
    if asked.store is not None:
        url, is_named = seen_from(asked.directory, asked.store), asked.session is not None
        return StoreLocation(url, asked.session, asked.branch or "main", is_named=is_named)
    here = asked.directory.resolve()
    root = next((up for up in (here, *here.parents) if (up / FOLDER / FILE).is_file()), None)
    if root is None:
        raise worded(
            StoreNotFound(
                f"no {FOLDER} here or in any directory above",
                hint="`otolith init` makes one, `otolith --store URL …` uses a store directly, "
                "`otolith demo` shows what this is",
            )
        )
    place = load(root)
    if asked.session is not None and asked.session != place.session:
        place = replace(place, session=asked.session, branch="main")
    is_named = asked.session is not None
    return replace(place, branch=asked.branch or place.branch, is_named=is_named)


def seen_from(directory: Path, store: str) -> str:
    """Return the address of a store, as seen from anywhere."""
    return StoreLocation(store, None, "main", root=directory.resolve()).url


def load(root: Path) -> StoreLocation:
    """Read the place that is kept in a directory."""
    file = root / FOLDER / FILE
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        return StoreLocation(str(kept["store"]), str(kept["session"]), str(kept["branch"]), root)
    except PermissionError as error:
        raise Denied(f"{file} cannot be read", hint="check its permissions") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Corrupt(
            f"{file} is not what `otolith init` wrote",
            hint='it holds {"store": …, "session": …, "branch": …}',
        ) from error


def save(place: StoreLocation) -> None:
    """Keep a place in its directory."""
    assert place.root is not None
    folder = place.root / FOLDER
    kept = {"store": place.store, "session": place.session, "branch": place.branch}
    try:
        folder.mkdir(exist_ok=True)
        draft = folder / f"{FILE}.new"
        draft.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
        draft.replace(folder / FILE)
    except PermissionError as error:
        raise Denied(f"{folder} cannot be written", hint="check its permissions") from error


@dataclass(frozen=True, slots=True)
class OpenBranch:
    """An open store with the branch at hand, its staged edits taken up."""

    place: StoreLocation
    repo: BareRepo
    branch: Branch

    def head(self) -> Commit:
        """Return the last commit of the branch.

        Raises:
            RefNotFound: there is none.
        """
        return self.commit("@")

    def commit(self, expression: str) -> Commit:
        """Return the commit that an expression names; a near miss is suggested."""
        if expression in ("@", "HEAD") and self.branch.head is None:
            raise self._unborn()
        try:
            return self.branch.resolve(expression)
        except RefNotFound as error:
            name = re.split(r"[~^]|@\{", expression)[0]
            raise self._unknown(error.message, name, error.hint) from None

    def names(self) -> list[str]:
        """Return what an expression may start with: branches of the session, and tags."""
        return [*self.repo.branches(self.branch.session), *self.repo.tags()]

    def _unborn(self) -> RefNotFound:
        session, name = self.branch.session, self.branch.name
        if self.repo.branches(session):
            message = f"session {session} has no branch {name}"
            return self._unknown(message, name, "`otolith branch`")
        known = [found.id for found in self.repo.sessions()]
        if known and self.place.is_named and self.branch.is_clean:
            return _no_session(session, known)
        begin = f"`otolith exec {session} -c CODE` begins it; so do `otolith set` and `commit`"
        if known:
            other = known[0] if len(known) == 1 else "ID"
            begin = f"{_listed(session, known)}; `otolith checkout --session {other}` goes there"
        return suggesting(f"session {session} has no commit yet", session, known, begin)

    def _unknown(self, message: str, name: str, otherwise: str) -> RefNotFound:
        return suggesting(message, name, self.names(), otherwise)


def _no_session(name: str, known: list[str]) -> RefNotFound:
    """Return an error that lists the sessions there are, the nearest first."""
    listed = _listed(name, known)
    found = suggesting(f"there is no session {name}", name, known, "")
    begin = f"`otolith exec {name} -c CODE` begins one"
    found.hint = f"{found.hint} {listed}" if found.hint else f"{listed}; {begin}"
    return found


def _listed(name: str, known: list[str]) -> str:
    near = ", ".join(get_close_matches(name, known, n=_MOST_LISTED, cutoff=0))
    return f"the sessions are: {near}" + (", …" if len(known) > _MOST_LISTED else "")


def suggesting(message: str, name: str, known: list[str], otherwise: str) -> RefNotFound:
    """Return an error that suggests the nearest of the names there are."""
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else otherwise
    error = RefNotFound(message, hint=hint)
    worded(error)
    return error


@contextmanager
def opened(
    url: str, *, read_only: bool = False, create: bool = False
) -> Iterator[session_room.Repo]:
    """Open a repo for one command. No class of the user's is needed, and no code of theirs runs."""
    codecs = Codecs(opaque=True)
    with opening.open(url, codecs=codecs, create=create, read_only=read_only) as repo:
        yield repo


@contextmanager
def at_hand(
    asked: GlobalOptions, *, read_only: bool = False, is_staged: bool = True
) -> Iterator[OpenBranch]:
    """Open the store and the branch at hand, and take up its staged edits.

    What is staged was begun on a commit, and hides what came after it: for a verb that shows what
    agents did meanwhile, nothing `is_staged`.
    """
    place = find(asked)
    with opened(place.url, read_only=read_only) as repo:
        session = place.session if place.session is not None else only_session(repo)
        branch = repo.session(session, branch=place.branch)
        if is_staged:
            branch.unstash()
        yield OpenBranch(place, repo, branch)


def only_session(repo: BareRepo) -> str:
    """Return the session of a store that has one."""
    ids = [session.id for session in repo.sessions()]
    if len(ids) == 1:
        return ids[0]
    if not ids:
        raise Invalid("the store has no session yet", hint="name one: `otolith -s ID …`")
    shown = ", ".join(ids[:8]) + (", …" if len(ids) > 8 else "")
    raise Invalid(
        f"the store has {len(ids)} sessions: {shown}", hint="choose one: `otolith -s ID …`"
    )
