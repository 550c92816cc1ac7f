"""Addresses on the command line: `REF:PATH`, `PATH`, `A..B`, and times.

Both names and paths may contain colons. The longest name of a commit counts: each colon is tried
from the right, and the first whose left side names a commit separates; that of a key such as `~:42`
never does. A leading colon (`:PATH`) means the staged state.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

import click

from otolith.cli.location import OpenBranch
from otolith.core import Branch, Commit, Snapshot, parse_path
from otolith.errors import BadPath, BadRef, NotFound

Keys = tuple[object, ...]


class Address(NamedTuple):
    """A path in the state of a commit, or in the staged state if there is no commit."""

    commit: Commit | None
    keys: Keys

    def state(self, current: OpenBranch) -> Branch | Snapshot:
        """Return the state that the path is in."""
        return current.branch if self.commit is None else current.repo.at(self.commit)


def parse_ref_path(current: OpenBranch, text: str) -> Address | None:
    """Return the address that `REF:PATH` names, or None if no colon separates a ref."""
    if text.startswith(":"):
        return Address(None, parse_keys(text[1:]))
    for ref, path in _splits(text):
        try:
            return Address(current.branch.resolve(ref), parse_keys(path))
        except (NotFound, BadRef):
            continue
    return None


def parse_address(current: OpenBranch, text: str) -> Address:
    """Return the address that `[REF:]PATH` names.

    Raises:
        RefNotFound: there is neither such a ref, nor anything at that path.
    """
    address = parse_ref_path(current, text)
    if address is not None:
        return address
    keys = parse_keys(text)
    refs = [ref for ref, _ in _splits(text)]
    if refs and current.branch.cell_at(keys) is None:
        current.commit(refs[-1])  # raises the error about the ref
    return Address(None, keys)


def _splits(text: str) -> Iterator[tuple[str, str]]:
    """Yield the text on both sides of each colon that may separate, from the right."""
    for at in range(len(text) - 1, 0, -1):
        if text[at] == ":" and not _begins_key(text, at):
            yield text[:at], text[at + 1 :]


def _begins_key(text: str, at: int) -> bool:
    """Tell whether a colon belongs to a key that is not text, such as `~:42`."""
    return text[:at].rpartition("/")[2] == "~"


def parse_keys(path: str) -> Keys:
    """Return the keys of a path; none for the whole state. A trailing slash is ignored."""
    return parse_path(path.rstrip("/")) if path.strip("/") else ()


def parse_range(current: OpenBranch, words: tuple[str, ...]) -> tuple[Commit | None, Commit | None]:
    """Return the two commits of `A`, `A B`, `A..B` or `A...B`; None stands for the staged state.

    Raises:
        BadPath: there are more than two words.
    """
    if len(words) > 2:
        raise BadPath("diff takes two commits at most", hint="`otolith diff A B`")
    if len(words) == 1 and ".." in words[0]:
        dots = "..." if "..." in words[0] else ".."
        left, right = (current.commit(end or "@") for end in words[0].split(dots, 1))
        bases = current.repo.backend.graph.bases([left], [right]) if dots == "..." else []
        return (bases[0] if bases else left), right
    commits = [current.commit(word) for word in words]
    return (commits[0] if commits else None), (commits[1] if len(commits) > 1 else None)


def time_or_commit(text: str | None) -> datetime | str | None:
    """Return a time with its zone, or the text itself if it does not look like a time.

    Raises:
        UsageError: it looks like a time, and is none.
    """
    if text is None or not re.match(r"\d{4}-\d\d-\d\d", text):
        return text
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.UsageError(f"{text!r} is not a time: {error}\nwrite 2026-11-16T09:30") from None
    return found if found.tzinfo is not None else found.astimezone()
