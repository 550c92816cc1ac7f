"""`StateDifference`: the difference of two states as text and JSON, in three parts.

Values are listed by path. What a workspace or an agent stores below reserved names (`.workspace`,
`.conversation`, ...) would be unreadable as values, so it is summarised as variables and files,
messages, plan and runs, and what is known about a user.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from otolith.changes import AgentChange, WorkspaceChange
from otolith.cli.format.history import ChangedPath, change_json, changes_text, plural, summary
from otolith.cli.format.workspace import change_report_lines, difference_json, difference_lines
from otolith.cli.terminal import escape, table
from otolith.core import CONVERSATION, LOOP, MEMORY, PROFILE, WORKSPACE, Change, format_path
from otolith.views import ChangeLine
from otolith.workspace import Difference

# Where a kind of change to an agent is stored; kinds that are not listed are in its memory.
_AGENT_PATHS = {"message": CONVERSATION, "run": LOOP, "profile": PROFILE}


class StateDifference(NamedTuple):
    """The difference of two states: values, workspace (variables and files) and agent."""

    changes: Sequence[ChangedPath]
    workspace: Sequence[Difference] = ()
    agent: Sequence[ChangeLine] = ()

    @classmethod
    def of(cls, found: Sequence[Change]) -> StateDifference:
        """Sort what `status` and `diff` return into the three parts."""
        return cls(
            [each for each in found if not isinstance(each, WorkspaceChange | AgentChange)],
            [each.summary for each in found if isinstance(each, WorkspaceChange)],
            [each.summary for each in found if isinstance(each, AgentChange)],
        )

    def to_json(self) -> dict[str, object]:
        """Return it as JSON data."""
        return {
            "changes": [change_json(change) for change in self.changes],
            "workspace": [difference_json(each) for each in self.workspace],
            "agent": [each._asdict() for each in self.agent],
        }

    def lines(self) -> Iterator[str]:
        """Yield it as text, in up to four parts; empty ones are left out."""
        known = [each for each in self.agent if each.what == "profile"]
        done = [each for each in self.agent if each.what != "profile"]
        parts = {
            "": list(changes_text(self.changes)),
            "Variables and files:": list(difference_lines(self.workspace)),
            "Conversation, memory and runs:": list(change_report_lines(done)),
            "Profile:": list(change_report_lines(known)),
        }
        is_first = True
        for title, lines in parts.items():
            if lines:
                yield from [] if is_first else [""]
                yield from [title] if title else []
                yield from lines
                is_first = False

    def paths(self) -> list[str]:
        """Return the paths that differ.

        Changes of an agent are summaries without a path; the room they are stored in stands for
        them, once.
        """
        paths = [change.path for change in self.changes]
        for each in self.workspace:
            table_name = "vars" if each.what == "variable" else "files"
            paths.append(format_path((WORKSPACE, table_name, each.name)))
        rooms = (_AGENT_PATHS.get(each.what, MEMORY) for each in self.agent)
        return [*paths, *dict.fromkeys(rooms)]

    def total(self) -> str:
        """Return how many paths, variables, messages, ... differ."""
        rooms = [each.what for each in self.workspace] + [each.what for each in self.agent]
        paths = [plural(len(self.changes), "path")] if self.changes or not rooms else []
        others = (plural(rooms.count(what), what) for what in dict.fromkeys(rooms))
        return ", ".join([*paths, *others])

    def counts(self) -> Iterator[str]:
        """Yield the number of differences below each top name, then those of each other kind."""
        below: dict[str, list[ChangedPath]] = {}
        for change in self.changes:
            below.setdefault(change.path.partition("/")[0], []).append(change)
        rows = [[escape(f" {name}"), summary(some)] for name, some in below.items()]
        hows: list[tuple[str, str]] = [(each.what, each.how) for each in self.workspace]
        hows += [(each.what, each.how) for each in self.agent]
        for what in dict.fromkeys(what for what, _ in hows):
            alike = [how for each, how in hows if each == what]
            counts = [f"{alike.count(how)} {how}" for how in dict.fromkeys(alike)]
            rows.append([f" {what}s", ", ".join(counts)])
        yield from table(rows)
        if self.changes or not hows:
            yield f"{len(self.changes):,} in all: {summary(self.changes)}"
