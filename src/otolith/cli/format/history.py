r"""Commits, changes and conflicts as text and JSON, and the graph beside a log.

The graph has one lane for each open line of descent. A lane waits for a commit. When that commit is
printed, all lanes that wait for it are joined into the first; that lane then waits for the first
parent, and new lanes to the right wait for the others.

    *      a commit                  |\     a merge opens a lane
    |      another lane              |/     two lanes had the same ancestor

JSON objects that other modules build on. Programs read them: a key that is renamed breaks those.

    commit      id, parents, root, generation, time (microseconds), author, message, kind, meta
    change      path, kind (added, removed or changed), old and new (each only if there is one)
    conflict    path, kind, why, base, ours, theirs (null for a side without the path)

Values in them are written by `values.to_json`, so that `otolith set` can read them again.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from difflib import unified_diff
from itertools import zip_longest
from types import MappingProxyType
from typing import Any, NamedTuple

import click

from otolith.cli.format.values import one_line, to_json
from otolith.cli.terminal import escape, pick
from otolith.codecs import Document
from otolith.core import Change, Commit, PathConflict

Labels = Mapping[str, list[str]]
"""Commit id -> names that point at it."""


class InitialChange(NamedTuple):
    """A path of a first commit, which has no earlier state to compare with.

    It has the attributes of a change, so that the first commit is shown like any other.
    """

    path: str
    new: object
    kind: str = "added"
    old: object = None


ChangedPath = Change | InitialChange
"""One path that differs between two states: `path`, `kind`, `old` and `new`."""

SIGNS = {"added": "+", "removed": "-", "changed": "~"}
_COLORS = {"added": "green", "removed": "red", "changed": "yellow"}


def format_time(microseconds: int) -> str:
    """Return a time in the time zone of this machine."""
    when = datetime.fromtimestamp(microseconds / 1e6, tz=UTC).astimezone()
    return when.strftime("%Y-%m-%d %H:%M:%S %z")


def plural(count: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, in the plural unless it is one."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {plural or noun + 's'}"


def first_line(commit: Commit) -> str:
    """Return the first line of a commit's message, or its kind in brackets if there is none."""
    return escape(commit.message.partition("\n")[0]) or f"({escape(commit.kind)})"


def labels(heads: Mapping[str, Commit], tags: Mapping[str, Commit], *, here: str) -> Labels:
    """Return the names that point at commits, styled: branches of a session, and tags.

    The current branch, `here`, is marked by an `@`.
    """
    found: dict[str, list[str]] = {}
    for name, commit in heads.items():
        shown = click.style(escape(f"@ {name}" if name == here else name), fg="green", bold=True)
        found.setdefault(commit.id, []).append(shown)
    for name, commit in tags.items():
        found.setdefault(commit.id, []).append(click.style(escape(f"tag: {name}"), fg="magenta"))
    return found


def short_id(commit: Commit) -> str:
    """Return the first digits of a commit's id, in the colour of ids."""
    return click.style(commit.short, fg="yellow")


def oneline(commit: Commit, names: Labels = MappingProxyType({})) -> str:
    """Return a commit on one line: id, the names that point at it, message, a failed step."""
    pointing = f"({', '.join(names[commit.id])}) " if commit.id in names else ""
    ending = _ending(commit)
    failed = click.style(f"  [{ending}]", fg="red") if ending not in ("", "ok") else ""
    return f"{short_id(commit)} {pointing}{first_line(commit)}{failed}"


def _ending(commit: Commit) -> str:
    """Return how the step of a commit ended: ok, failed, …; nothing if it has no step."""
    if commit.kind != "run" or "ok" not in commit.meta:
        return ""
    return "ok" if commit.meta["ok"] else escape(str(commit.meta.get("stopped", "failed")))


def heading(commit: Commit, names: Labels) -> list[str]:
    """Return a commit as several lines: id, author, date, message."""
    pointing = f" ({', '.join(names[commit.id])})" if commit.id in names else ""
    lines = [click.style(f"commit {commit.id[:20]}", fg="yellow") + pointing]
    if len(commit.parents) > 1:
        lines.append("Merge:  " + " ".join(parent[:10] for parent in commit.parents))
    lines += [f"Author: {escape(commit.author)}", f"Date:   {format_time(commit.time)}"]
    if commit.kind not in ("step", "merge"):
        ending = _ending(commit)
        where = f", {ending}, in {commit.meta.get('sandbox')}" if ending else ""
        lines.append(escape(f"Kind:   {commit.kind}{where}"))
    return [*lines, "", *(f"    {line}" for line in escape(commit.message).splitlines())]


def commit_json(commit: Commit) -> dict[str, Any]:
    """Return a commit as JSON data."""
    plain = ("id", "parents", "root", "generation", "time", "author", "message", "kind")
    return pick(commit, *plain) | {"meta": to_json(dict(commit.meta))}


def change_json(change: ChangedPath) -> dict[str, Any]:
    """Return a change as JSON data; an absent value has no key."""
    found: dict[str, Any] = {"path": change.path, "kind": change.kind}
    if change.kind != "added":
        found["old"] = to_json(change.old)
    if change.kind != "removed":
        found["new"] = to_json(change.new)
    return found


def changes_text(changes: Iterable[ChangedPath], *, width: int | None = None) -> Iterator[str]:
    """Yield the old and new value of each path, cut to the width of the screen."""
    limit = width if width is not None else max(40, screen_width() - 6)
    for change in changes:
        yield f"{sign_of(change.kind)} {click.style(escape(change.path), bold=True)}"
        yield from _sides(change, limit)


def sign_of(kind: str) -> str:
    """Return the sign of a kind of change, in its colour."""
    return click.style(SIGNS[kind], fg=_COLORS[kind])


def screen_width() -> int:
    """Return the width of the terminal, or 160 for a file."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 160


def _sides(change: ChangedPath, limit: int) -> Iterator[str]:
    """Yield the old and the new value; of texts of several lines or sentences, what differs."""
    old, new = change.old, change.new
    before, after = _text_of(old), _text_of(new)
    is_document = isinstance(old, Document) or isinstance(new, Document)
    if before is not None and after is not None and (is_document or "\n" in before + after):
        split = _sentences if is_document else str.splitlines
        hunks = unified_diff(split(escape(before)), split(escape(after)), n=2, lineterm="")
        for line in list(hunks)[2:]:
            color = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
            yield "    " + (click.style(line, fg=color) if color else line)
        return
    if change.kind != "added":
        yield "    " + click.style(f"- {one_line(old, limit)}", fg="red")
    if change.kind != "removed":
        yield "    " + click.style(f"+ {one_line(new, limit)}", fg="green")


def _text_of(value: object) -> str | None:
    """Return a text, also one that several edit; None for other values."""
    if isinstance(value, Document):
        return value.readable
    return value if isinstance(value, str) else None


def _sentences(text: str) -> list[str]:
    """Return the lines of a text, and of a line its sentences."""
    return [part.rstrip() for part in _SENTENCE.findall(text)]


_SENTENCE = re.compile(r"[^\n]*?[.!?]+[ \t]+|[^\n]*\n|[^\n]+")


def summary(changes: Iterable[ChangedPath]) -> str:
    """Return how many paths were added, changed and removed."""
    kinds = [change.kind for change in changes]
    parts = [f"{kinds.count(kind)} {kind}" for kind in SIGNS if kind in kinds]
    return ", ".join(parts) or "no difference"


_CONFLICT_SIDES = ("base", "ours", "theirs")


def path_conflict_lines(conflict: PathConflict) -> list[str]:
    """Return a conflict with its three sides; a side without the path is absent."""
    why = f"  {escape(conflict.why)}" if conflict.why else ""
    title = click.style(escape(conflict.path), bold=True)
    sides = pick(conflict, *_CONFLICT_SIDES)
    absent = click.style("absent", dim=True)
    return [
        f"{click.style('!', fg='red', bold=True)} {title}  {conflict.kind}{why}",
        *(f"    {side:7}{absent if v is None else one_line(v)}" for side, v in sides.items()),
    ]


def conflict_json(conflict: PathConflict) -> dict[str, Any]:
    """Return a conflict as JSON data."""
    sides = pick(conflict, *_CONFLICT_SIDES)
    found = pick(conflict, "path", "kind", "why")
    return found | {side: to_json(value) for side, value in sides.items()}


class FoldedStep(NamedTuple):
    """A commit, and with the step of an agent the commits that led to it, newest first."""

    commit: Commit
    parts: list[Commit]

    @property
    def is_agent(self) -> bool:
        """Whether it is a step of an agent, or the part of one that was not finished."""
        return "run" in self.commit.meta

    @property
    def before(self) -> str | None:
        """The commit that the step began at; None if it was the first."""
        oldest = self.parts[-1] if self.parts else self.commit
        return oldest.parents[0] if oldest.parents else None


def fold_steps(commits: Iterable[Commit]) -> Iterator[FoldedStep]:
    """Fold the replies, effects and runs of code of an agent into its steps; newest first.

    Other commits stay as they are. Parts without a step are those of a step that did not end.
    """
    step: FoldedStep | None = None
    for commit in commits:
        if step is not None and step.is_agent and _is_part(commit, step.commit):
            step.parts.append(commit)
            continue
        if step is not None:
            yield step
        step = FoldedStep(commit, [])
    if step is not None:
        yield step


def _is_part(commit: Commit, step: Commit) -> bool:
    """Tell whether a commit was made during a step: it counts none, and is of the same run."""
    if "call" in commit.meta:  # code that the step ran
        return True
    return "iteration" not in commit.meta and commit.meta.get("run") == step.meta["run"]


_LANE_COLORS = ("red", "green", "blue", "magenta", "cyan")


class Lanes:
    """Draws the graph, commit by commit; its state is the commits that the lanes wait for."""

    def __init__(self) -> None:
        self._waiting: list[str] = []

    def rows(self, commit: Commit, text: Sequence[str]) -> Iterator[str]:
        """Yield the rows of the next commit, with its text beside them."""
        for row in self._fold(commit.id):
            yield _colour_lanes(row.rstrip())
        marks = " ".join("*" if waiting == commit.id else "|" for waiting in self._waiting) + " "
        drawn = [marks, *self._descend(commit)]
        rest = "| " * len(self._waiting)
        width = max(map(len, [*drawn, rest]))
        for drawing, words in zip_longest(drawn, text):
            row = (rest if drawing is None else drawing).ljust(width)
            yield _colour_lanes(row) + words if words else _colour_lanes(row.rstrip())

    def _fold(self, id: str) -> Iterator[str]:
        """Join all lanes that wait for this commit into the first of them."""
        if id not in self._waiting:
            self._waiting.append(id)
        first = self._waiting.index(id)
        while self._waiting.count(id) > 1:
            last = len(self._waiting) - 1 - self._waiting[::-1].index(id)
            yield self._shift_left(last, towards=first)
            del self._waiting[last]

    def _descend(self, commit: Commit) -> Iterator[str]:
        """Make the lane wait for the first parent, and open lanes for the others."""
        at = self._waiting.index(commit.id)
        if not commit.parents:
            if at < len(self._waiting) - 1:
                yield self._shift_left(at, towards=at)
            del self._waiting[at]
            return
        self._waiting[at] = commit.parents[0]
        for parent in commit.parents[1:]:
            bars = ["| "] * at + ["|\\"] + [" \\"] * (len(self._waiting) - at - 1)
            self._waiting.insert(at + 1, parent)
            yield "".join(bars) + " "

    def _shift_left(self, lane: int, *, towards: int) -> str:
        """Draw a lane that joins another, and the lanes to its right that close the gap."""
        row = [" "] * (2 * len(self._waiting))
        for at in range(len(self._waiting)):
            if at < lane or (at == towards and at != lane):
                row[2 * at] = "|"
            elif 2 * at - 1 > 0 and not (at == lane == towards):
                row[2 * at - 1] = "/"
        for at in range(2 * towards + 1, 2 * lane - 2):
            row[at] = "_" if row[at] == " " else row[at]
        return "".join(row)


def _colour_lanes(row: str) -> str:
    """Colour each lane by its position."""
    return "".join(
        char if char in " *" else click.style(char, fg=_LANE_COLORS[at // 2 % len(_LANE_COLORS)])
        for at, char in enumerate(row)
    )
