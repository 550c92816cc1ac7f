"""The store and branch that a command works on: found, opened, remembered.

    .otolith/             searched here and in the directories above, like .git
        place.json        {"store": …, "session": …, "branch": …}
        store.db          the store, unless it is elsewhere

The path of a store is relative to the directory that contains `.otolith`.

Which one a command works on, the first that applies:

    store       `--store`, or $OTOLITH_STORE; then no directory is searched; else place.json
    session     that of the command; `-s`; place.json; the only one of the store; `--user`, `--app`
                and `--team` name the state of a user, an application or a team instead
    branch      `-b`; place.json, unless another session was named; "main"
    team        of `otolith team …`: that of the command; `--team`; the only one of the store
    member      `--as`; $OTOLITH_MEMBER. It must be named to change a team, and be a member of it.
                With `--as`, a session is that of the team in which somebody works on it

Only `init`, `switch` and `demo` write place.json. Edits that are staged between two commands are
stashed in the store, not beside it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import unquote

import click

from otolith import opening
from otolith.cli.errors import in_commands, terminal_error
from otolith.cli.options import GlobalOptions
from otolith.cli.terminal import escape
from otolith.codecs import Codecs
from otolith.core import Commit, scope_ref
from otolith.errors import Corrupt, Denied, Invalid, KeyNotFound, RefNotFound, StoreNotFound
from otolith.session import Repo, Versioned
from otolith.session_snapshot import SessionSnapshot
from otolith.stores import without_secrets
from otolith.teams import Team

FOLDER = ".otolith"
FILE = "place.json"
STORE = f"{FOLDER}/store.db"

_MOST_LISTED = 5
_SQLITE = "sqlite:"
_SCHEME = re.compile(r"(?!sqlite:(?!//))[A-Za-z][\w+.-]+:")  # anything but sqlite:relative


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """A store with its current session and branch. `root` is the parent of `.otolith`."""

    store: str
    session: str | None
    branch: str
    root: Path | None = None
    is_named: bool = False
    """Whether the session was named on this command line."""
    scope: str = "session"
    member: str | None = None
    """Who commits, as a member of a team, if it is opened to change it."""
    team: str | None = None
    """The team of the member."""

    @property
    def url(self) -> str:
        """The address of the store, valid in any directory."""
        if self.root is None or _SCHEME.match(self.store):
            return self.store
        path = self.store
        if path.startswith(_SQLITE):
            path = unquote(path.removeprefix(_SQLITE))
        return str(self.root / path)


def find(options: GlobalOptions) -> StoreLocation:
    """Return the location that the options name, or that of the nearest `.otolith`.

    Raises:
        StoreNotFound: there is neither.
    """
    is_named = options.session is not None
    if options.store is not None:
        url = absolute_url(options.directory, options.store)
        return StoreLocation(
            url, options.session, options.branch or "main", is_named=is_named, scope=options.scope
        )
    here = options.directory.resolve()
    root = next((up for up in (here, *here.parents) if (up / FOLDER / FILE).is_file()), None)
    if root is None:
        raise terminal_error(
            StoreNotFound,
            f"no {FOLDER} here or in any directory above",
            "`otolith init` makes one, `otolith --store URL …` uses a store directly, "
            "`otolith demo` shows what this is",
        )
    location = load(root)
    current = (location.session, location.scope)
    if is_named and (options.session, options.scope) != current:
        location = replace(location, session=options.session, scope=options.scope, branch="main")
    return replace(location, branch=options.branch or location.branch, is_named=is_named)


def absolute_url(directory: Path, store: str) -> str:
    """Return the address of a store given relative to a directory, valid in any other."""
    return StoreLocation(store, None, "main", root=directory.resolve()).url


def load(root: Path) -> StoreLocation:
    """Read the location stored in a directory.

    Raises:
        Denied: its file cannot be read.
        Corrupt: its file is not one that `save` wrote.
    """
    file = root / FOLDER / FILE
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return StoreLocation(str(found["store"]), str(found["session"]), str(found["branch"]), root)
    except PermissionError as error:
        raise Denied(f"{file} cannot be read", hint="check its permissions") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Corrupt(
            f"{file} is not what `otolith init` wrote",
            hint="`otolith init` writes it anew, for the store that is there",
        ) from error


def save(location: StoreLocation) -> None:
    """Store a location in its directory, for the commands that follow.

    Raises:
        Denied: the directory cannot be written.
    """
    assert location.root is not None
    folder = location.root / FOLDER
    content = {"store": location.store, "session": location.session, "branch": location.branch}
    try:
        folder.mkdir(exist_ok=True)
        draft = folder / f"{FILE}.new"
        draft.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        draft.replace(folder / FILE)
    except PermissionError as error:
        raise Denied(f"{folder} cannot be written", hint="check its permissions") from error


@dataclass(frozen=True, slots=True)
class OpenBranch:
    """An open store with the current branch, its stashed edits staged again."""

    location: StoreLocation
    repo: Repo
    branch: Versioned

    @property
    def owner(self) -> str:
        """Whose state it is: "session trip", "user ann"."""
        return f"{self.branch.scope} {self.branch.session}"

    def heads(self) -> dict[str, Commit]:
        """Return the branches of the session, user or application, and their last commits."""
        return self.repo.branches(self.branch.session, scope=self.branch.scope)

    def sibling(self, name: str) -> Versioned:
        """Return another branch of the session, user or application."""
        return open_branch(self.repo, replace(self.location, branch=name), self.branch.session)

    def head(self) -> Commit:
        """Return the last commit of the branch.

        Raises:
            RefNotFound: the branch has no commit; the hint names the nearest one that has.
        """
        return self.commit("@")

    def check_name(self, *, is_read: bool) -> None:
        """Refuse a branch that the command line names and that nobody has begun.

        To write to the first branch of a session begins it; any other begins by `otolith branch`.

        Raises:
            RefNotFound: there is no such branch, or no such session to read.
        """
        if self.branch.head is not None or not self.branch.is_clean:
            return
        if is_read or self.heads():
            raise self._no_commit()

    def check_author(self, author: str | None) -> None:
        """Refuse an author for a commit to a team: the member that acts is the author.

        Raises:
            UsageError: one is given.
        """
        if author is not None and self.location.member is not None:
            raise click.UsageError(
                "--author does not apply to a team\nname the member: --as MEMBER"
            )

    def at(self, expression: str) -> SessionSnapshot:
        """Return the state at the commit that an expression names.

        Raises:
            RefNotFound: there is none.
        """
        return self.repo.at(self.commit(expression))

    def commit(self, expression: str) -> Commit:
        """Return the commit that an expression names.

        Raises:
            RefNotFound: there is none; the hint suggests the nearest name.
        """
        if expression in ("@", "HEAD") and self.branch.head is None:
            raise self._no_commit()
        try:
            return self.branch.resolve(expression)
        except RefNotFound as error:
            name = re.split(r"[~^]|@\{", expression)[0]
            hint = in_commands(error.hint)
            raise ref_not_found(error.message, name, self.refs(), hint) from None

    def refs(self) -> list[str]:
        """Return the branches of the session and the tags, to suggest one of them."""
        return [*self.heads(), *self.repo.tags()]

    def _no_commit(self) -> RefNotFound:
        """Return the error about a branch without a commit.

        Its hint depends on what the user most likely meant: a branch or session with a similar
        name, one of the sessions that exist, or a session to begin.
        """
        session, name = self.branch.session, self.branch.name
        if heads := self.heads():
            message = f"{self.owner} has no branch {name}"
            return ref_not_found(message, name, list(heads), "`otolith branch`")
        if self.branch.scope != "session":
            known = [found.id for found in self.repo.sessions(scope=self.branch.scope)]
            hint = f"`otolith {self.branch.scope}s` lists them"
            return ref_not_found(f"there is no {self.owner}", session, known, hint)
        begin = f"`otolith exec {session} -c CODE` begins it; so do `otolith set` and `commit`"
        known = [found.id for found in self.repo.sessions()]
        if not known:
            return ref_not_found(f"session {session} has no commit yet", session, known, begin)
        near = ", ".join(get_close_matches(session, known, n=_MOST_LISTED, cutoff=0))
        listed = f"the sessions are: {near}" + (", …" if len(known) > _MOST_LISTED else "")
        if self.location.is_named and self.branch.is_clean:
            begin = f"{listed}; `otolith exec {session} -c CODE` begins one"
            error = ref_not_found(f"there is no session {session}", session, known, begin)
            error.hint = error.hint if error.hint == begin else f"{error.hint} {listed}"
            return error
        other = known[0] if len(known) == 1 else "ID"
        switch = f"{listed}; `otolith switch -s {other}` switches to it"
        return ref_not_found(f"session {session} has no commit yet", session, known, switch)


def ref_not_found(message: str, name: str, known: list[str], otherwise: str) -> RefNotFound:
    """Return an error that suggests the nearest known name, or else another hint."""
    near = get_close_matches(name, known, n=1)
    return terminal_error(RefNotFound, message, f"did you mean {near[0]}?" if near else otherwise)


@contextmanager
def open_repo(
    url: str, *, read_only: bool = False, create: bool = False, opaque: bool = True
) -> Iterator[Repo]:
    """Open a repo for one command.

    Values of the user's classes stay opaque, so that no module of theirs is imported and none of
    their code runs; only the commands that run their code pass `opaque=False`.
    """
    codecs = Codecs(opaque=True) if opaque else None
    with opening.open(url, codecs=codecs, create=create, read_only=read_only) as repo:
        yield repo


@contextmanager
def open_current(
    options: GlobalOptions,
    *,
    read_only: bool = False,
    unstash: bool = True,
    must_exist: bool = False,
    opaque: bool = True,
) -> Iterator[OpenBranch]:
    """Open the current store and branch, and stage its stashed edits again.

    Staged edits belong to the commit they began on and hide later ones. A command that shows what
    agents committed in the meantime, or runs one, passes `unstash=False`.

    Raises:
        RefNotFound: `must_exist`, and the branch has no commit; or the command line names a branch
            that the session does not have, or reads a session that does not exist.
        KeyNotFound: who acts is not a member of the team.
        Invalid: no session was named, and the store has none or several.
        UsageError: nobody is named to change the state of a team.
    """
    location = find(options)
    acts = location.scope == "team" or options.member is not None
    if acts and location.scope not in ("team", "session"):
        raise click.UsageError(
            f"--as names a member of a team, and this is a {location.scope}\nname one: --team ID"
        )
    if acts and not read_only:
        location = replace(location, member=acting_member(options))
    with open_repo(location.url, read_only=read_only, opaque=opaque) as repo:
        session = location.session if location.session is not None else only_state(repo)
        member = location.member
        if member is not None:
            team = session if location.scope == "team" else _team_of(repo, session)
            location = replace(location, team=team)
            check_team(repo, team)
            check_member(repo.team(team), member)
        branch = open_branch(repo, location, session)
        current = OpenBranch(location, repo, branch)
        if branch.is_clean:
            if unstash:
                branch.unstash()
        elif not unstash:
            branch.discard()  # a member's session comes with what was stashed; it stays stashed
        if must_exist:
            current.head()
        if options.branch is not None or location.is_named:
            current.check_name(is_read=read_only)
        yield current


def open_branch(repo: Repo, location: StoreLocation, session: str) -> Versioned:
    """Return the branch of a location; `session` is the id of its session, user, app or team."""
    if location.team is not None:
        team = repo.team(location.team, member=location.member)
        if location.scope == "team":
            return team.open_branch(location.branch)
        return team.session(session, branch=location.branch)
    return Versioned(repo, session=session, branch=location.branch, scope=location.scope)


_BEGIN = {"session": "name one: `otolith -s ID …`"}
_BEGIN["team"] = "`otolith team add NAME --team ID --as NAME` begins one, with its first member"
_BEGIN["user"] = "`otolith profile set USER KEY VALUE` begins one"
_CHOOSE = {
    "session": "choose one: `otolith -s ID …`",
    "team": "choose one: `--team ID`",
    "user": "choose one: `--user ID`",
}


def only_state(repo: Repo, scope: str = "session") -> str:
    """Return the session, the team, or the user, of a store that has one.

    Raises:
        Invalid: it has none, or several.
    """
    ids = [each.id for each in repo.sessions(scope=scope)]
    if len(ids) == 1:
        return ids[0]
    if not ids:
        raise Invalid(f"the store has no {scope} yet", hint=_BEGIN[scope])
    listed = ", ".join(ids[:8]) + (", …" if len(ids) > 8 else "")
    raise Invalid(f"the store has {len(ids)} {scope}s: {listed}", hint=_CHOOSE[scope])


# Commands to type


def command_line(options: GlobalOptions, *words: str) -> str:
    """Return a command to type, with the global options of this call."""
    given: list[str] = []
    if options.store is not None and options.store != os.environ.get("OTOLITH_STORE"):
        given += ["--store", without_secrets(options.store)]
    if options.branch is not None:
        given += ["-b", options.branch]
    if str(options.directory) != ".":
        given += ["-C", str(options.directory)]
    return escape(shlex.join(["otolith", *given, *words]))


# Teams


def _team_of(repo: Repo, session: str) -> str:
    """Return the team in which somebody works on a session.

    Raises:
        UsageError: there is none, or several.
    """
    ids = [each.id for each in repo.sessions(scope="team")]
    found = [id for id in ids if session in [each.session for each in repo.team(id).sessions()]]
    if len(found) == 1:
        return found[0]
    who = f"teams {', '.join(found)} work" if found else "no team works"
    raise click.UsageError(
        f"--as names a member of a team, and {who} on session {session}\n"
        "`otolith team handoff SESSION --to MEMBER` lets one work on a session of its own"
    )


def acting_member(options: GlobalOptions) -> str:
    """Return the member that acts. The user of the machine is not one by itself.

    Raises:
        UsageError: none is named.
    """
    named = options.member
    member = os.environ.get("OTOLITH_MEMBER") if named is None else named
    if not member:
        raise click.UsageError("which member acts?\nname it: --as MEMBER, or set $OTOLITH_MEMBER")
    return member


@contextmanager
def open_team(
    options: GlobalOptions, *, acts: bool = False, read_only: bool = True, begins: bool = False
) -> Iterator[Team[Versioned]]:
    """Open the store, and a team in it: to look, or to act as a member.

    A mistyped name begins no team and adds no member: only `begins` allows both.

    Raises:
        RefNotFound: there is no such team.
        KeyNotFound: who acts is not a member.
        Invalid: no team was named, and the store has none or several.
        UsageError: nobody is named to act; or something else than a team is named.
    """
    if options.session is not None and options.scope != "team":
        raise click.UsageError(
            f"this works on a team, not on a {options.scope}\nname one: --team ID"
        )
    if options.branch is not None:
        raise click.UsageError("members act on the branch main of a team\nomit --branch")
    member = acting_member(options) if acts else None
    with open_repo(find(options).url, read_only=read_only) as repo:
        id = options.session if options.session is not None else only_state(repo, "team")
        if not begins:
            check_team(repo, id)
            if member is not None:
                check_member(repo.team(id), member)
        yield repo.team(id, member=member)


def check_team(repo: Repo, id: str) -> None:
    """Refuse a team that nobody has begun.

    Raises:
        RefNotFound: there is none; the hint suggests the nearest name.
    """
    if repo.store.ref(scope_ref("team", id, "main")) is None:
        known = [each.id for each in repo.sessions(scope="team")]
        hint = "`otolith teams` lists them" if known else _BEGIN["team"]
        raise ref_not_found(f"there is no team {id}", id, known, hint)


def check_member(team: Team[Versioned], name: str) -> None:
    """Refuse to act as somebody who is not a member of a team.

    Raises:
        KeyNotFound: there is no such member; the hint suggests the nearest name.
    """
    known = [each.name for each in team.members()]
    if name not in known:
        near = get_close_matches(name, known, n=1)
        listed = ", ".join(known[:_MOST_LISTED]) + (", …" if len(known) > _MOST_LISTED else "")
        raise terminal_error(
            KeyNotFound,
            f"team {team.id} has no member {name}",
            f"did you mean {near[0]}?"
            if near
            else f"its members are: {listed}; `otolith team add NAME` adds one",
        )
