"""What a word on the command line names: `REF:PATH`, `PATH`, `A..B`.

Both names and paths may hold a colon, so each colon is tried from the left: the first whose left
side names a commit divides. A leading colon (`:PATH`) means the staged state, whatever follows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from otolith.cli.location import OpenBranch
from otolith.core import Branch, Commit, Snapshot, parse_path
from otolith.errors import BadPath, BadRef, NotFound

Keys = tuple[object, ...]


class Address(NamedTuple):
    """A place in a state: of a commit, or as staged if there is no commit."""

    commit: Commit | None
    keys: Keys

    def state(self, desk: OpenBranch) -> Branch | Snapshot:
        """Return the state that the place is in."""
        return desk.branch if self.commit is None else desk.repo.at(self.commit)


def divided(desk: OpenBranch, text: str) -> Address | None:
    """Return the place that `REF:PATH` names, or None if no colon divides it."""
    if text.startswith(":"):
        return Address(None, keys_of(text[1:]))
    for ref, path in _splits(text):
        try:
            return Address(desk.branch.resolve(ref), keys_of(path))
        except (NotFound, BadRef):
            continue
    return None


def place_in_state(desk: OpenBranch, text: str) -> Address:
    """Return the place that `[REF:]PATH` names."""
    found = divided(desk, text)
    if found is not None:
        return found
    keys = keys_of(text)
    if ":" in text and desk.branch.cell_at(keys) is None:
        desk.commit(next(ref for ref, _ in _splits(text)))  # says what is wrong with the ref
    return Address(None, keys)


def _splits(text: str) -> Iterator[tuple[str, str]]:
    for at, char in enumerate(text):
        if char == ":" and at:
            yield text[:at], text[at + 1 :]


def keys_of(path: str) -> Keys:
    """Return the keys of a path; none for the whole state. A slash at the end is forgiven."""
    return parse_path(path.rstrip("/")) if path.strip("/") else ()


def range_of(desk: OpenBranch, words: tuple[str, ...]) -> tuple[Commit | None, Commit | None]:
    """Return the two commits that `A`, `A B`, `A..B` or `A...B` name; None for what is staged."""
    if len(words) > 2:
        raise BadPath("diff takes two commits at most", hint="`otolith diff A B`")
    if len(words) == 1 and "..." in words[0]:
        left, right = map(desk.commit, _ends(words[0], "..."))
        bases = desk.repo.backend.graph.bases([left], [right])
        return (bases[0] if bases else left), right
    if len(words) == 1 and ".." in words[0]:
        left, right = map(desk.commit, _ends(words[0], ".."))
        return left, right
    commits = [desk.commit(word) for word in words]
    return (commits[0] if commits else None), (commits[1] if len(commits) > 1 else None)


def _ends(word: str, dots: str) -> tuple[str, str]:
    left, _, right = word.partition(dots)
    return left or "@", right or "@"
