"""Teams as text and JSON: members, leases, queues, proposals, conflicts, messages, changes.

JSON objects that programs read; times are microseconds since 1970:

    member      name, role, joined, is_present
    lease       name, member, since, ttl_seconds
    queue       name, slots, used (index, member, token, since), waiting (members, in order)
    proposal    id, title, by, time, status, needed, approvals, voters, vetoers, until, lapsed, why,
                votes (member, approves, why, time), effect
    conflict    id, path, kind, why, note, time, base, ours, theirs, absent, and of both sides the
                author and the commit; now, if the path was changed since
    message     number, sender, time, body
    owner       session, owner, giver, since, note
    watched     path, kind, old, new (each only if there is one), by, time, commit, cursor

Values in them are written by `values.to_json`, so that `otolith set` can read them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import click

from otolith.cli.format.history import (
    change_json,
    format_time,
    oneline,
    path_conflict_lines,
    plural,
    screen_width,
    sign_of,
)
from otolith.cli.format.state_difference import StateDifference
from otolith.cli.format.values import one_line, to_json
from otolith.cli.terminal import escape, pick, table
from otolith.core import Branch, Commit, PathConflict
from otolith.teams import (
    InboxConflict,
    LeaseEntry,
    Member,
    Proposal,
    QueueEntry,
    SessionOwner,
    TeamMessage,
    WatchedChange,
)
from otolith.text import size_text

_MOST_LISTED = 20  # lines of one kind on the page of a team
_MOST_NAMES = 8  # on one line
_LARGE_BYTES = 4096  # a larger value is not read to show the beginning of it
_WATCHED_LETTERS = 60  # of each value on a line of `watch`
_COLOURS = {"open": "yellow", "landed": "green"}


def _bold(text: str) -> str:
    return click.style(escape(text), bold=True)


def _listed(names: Sequence[str]) -> str:
    """Return names on one line; of many, the first."""
    more = f", and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return escape(", ".join(names[:_MOST_NAMES])) + more


# Members and sessions


def member_rows(members: Iterable[Member]) -> list[list[str]]:
    """Return members as rows of a table, with a heading."""
    rows = [["member", "role", "joined", "presence"]]
    for each in members:
        presence = click.style("present", fg="green") if each.is_present else "away"
        rows.append([_bold(each.name), escape(each.role), format_time(each.joined), presence])
    return rows


def member_json(member: Member) -> dict[str, Any]:
    """Return a member as JSON data."""
    return pick(member, "name", "role", "joined", "is_present")


def owner_rows(owners: Iterable[SessionOwner]) -> list[list[str]]:
    """Return who works on which session as rows of a table, with a heading."""
    rows = [["session", "member", "since", "given by", "note"]]
    for each in owners:
        note = "" if each.note is None else one_line(each.note)
        since = format_time(each.since)
        rows.append([_bold(each.session), escape(each.owner), since, escape(each.giver), note])
    return rows


def owner_json(owner: SessionOwner) -> dict[str, Any]:
    """Return who works on a session as JSON data."""
    return pick(owner, "session", "owner", "giver", "since") | {"note": to_json(owner.note)}


def message_rows(messages: Iterable[TeamMessage]) -> list[list[str]]:
    """Return messages as rows of a table."""
    return [[format_time(m.time), _bold(m.sender), one_line(m.body)] for m in messages]


def message_json(message: TeamMessage) -> dict[str, Any]:
    """Return a message as JSON data."""
    return pick(message, "number", "sender", "time") | {"body": to_json(message.body)}


# Leases and queues


def lease_rows(leases: Iterable[LeaseEntry]) -> list[list[str]]:
    """Return leases as rows of a table, with a heading."""
    rows = [["lease", "member", "since", "ttl"]]
    for each in leases:
        since, ttl = format_time(each.since), f"{each.ttl_seconds:g} s"
        rows.append([_bold(each.name), escape(each.member), since, ttl])
    return rows


def lease_json(lease: LeaseEntry) -> dict[str, Any]:
    """Return a lease as JSON data."""
    return pick(lease, "name", "member", "since", "ttl_seconds")


def queue_rows(queues: Iterable[QueueEntry]) -> list[list[str]]:
    """Return queues as rows of a table, with a heading."""
    rows = [["queue", "used", "by", "waiting"]]
    for each in queues:
        used = f"{len(each.used)} of {each.slots}"
        holders = [slot.member for slot in each.used]
        rows.append([_bold(each.name), used, _listed(holders), _listed(each.waiting)])
    return rows


def queue_lines(queue: QueueEntry) -> Iterator[str]:
    """Yield a queue: each slot with its holder, then who waits, the next one first."""
    waiting = plural(len(queue.waiting), "request") + (
        " waits" if len(queue.waiting) == 1 else " wait"
    )
    used = f"{len(queue.used)} of {plural(queue.slots, 'slot')} used"
    yield f"Queue {_bold(queue.name)}: {used}, {waiting}"
    rows = [
        [f"slot {slot.index}", _bold(slot.member), f"since {format_time(slot.since)}"]
        for slot in queue.used
    ]
    rows += [[f"next {at}", escape(name), ""] for at, name in enumerate(queue.waiting, 1)]
    yield from (f"  {line}" for line in table(rows))


def queue_json(queue: QueueEntry) -> dict[str, Any]:
    """Return a queue as JSON data."""
    used = [pick(slot, "index", "member", "token", "since") for slot in queue.used]
    return pick(queue, "name", "slots") | {"used": used, "waiting": list(queue.waiting)}


# Proposals


def _approvals(proposal: Proposal) -> int:
    return sum(vote.approves for vote in proposal.votes)


def _votes(proposal: Proposal) -> str:
    return f"{_approvals(proposal)} of {proposal.needed}"


def _status(proposal: Proposal) -> str:
    return click.style(proposal.status, fg=_COLOURS.get(proposal.status, "red"))


def proposal_rows(proposals: Iterable[Proposal]) -> list[list[str]]:
    """Return proposals as rows of a table, with a heading."""
    rows = [["proposal", "status", "votes", "by", "title", "until"]]
    for each in proposals:
        until = "" if each.until is None else format_time(each.until)
        rows.append(
            [
                click.style(each.id, fg="yellow"),
                _status(each),
                _votes(each),
                escape(each.by),
                _bold(each.title),
                until,
            ]
        )
    return rows


def _heading(proposal: Proposal) -> str:
    """Return a proposal on one line: its id, title, status, and how many approve."""
    id, votes = click.style(proposal.id, fg="yellow"), f"{_votes(proposal)} approvals"
    return f"Proposal {id} {_bold(proposal.title)}: {_status(proposal)}, {votes}"


def proposal_lines(
    proposal: Proposal,
    changes: StateDifference,
    conflicts: Sequence[PathConflict],
    landing: Commit | None,
) -> Iterator[str]:
    """Yield a proposal: who may vote and what they said, and its changes or its conflicts."""
    yield _heading(proposal)
    yield f"By      {escape(proposal.by)}, {format_time(proposal.time)}"
    if proposal.until is not None:
        word = "Expired" if proposal.status == "expired" else "Until  "
        yield f"{word} {format_time(proposal.until)}"
    if proposal.why:
        yield f"Why     {escape(proposal.why)}"
    if proposal.status == "open":
        yield f"Effect  {proposal.effect[:10]}"
    if landing is not None:
        yield f"Landed  {oneline(landing)}"
    yield ""
    yield from (f"  {line}" for line in table([*_vote_rows(proposal)]))
    if proposal.lapsed:
        have = "has" if proposal.lapsed == 1 else "have"
        yield f"  {plural(proposal.lapsed, 'vote')} {have} lapsed: the state was changed"
    if conflicts:
        yield ""
        yield click.style("It cannot land: others have changed", fg="red", bold=True)
        yield from (line for each in conflicts for line in path_conflict_lines(each))
    elif any(changes):
        yield ""
        yield from changes.lines()


def _vote_rows(proposal: Proposal) -> Iterator[list[str]]:
    """Yield a row for each member that may vote or veto, or has."""
    votes = {vote.member: vote for vote in proposal.votes}
    for name in dict.fromkeys([*proposal.voters, *proposal.vetoers, *votes]):
        shown = _bold(name) + (" (veto)" if name in proposal.vetoers else "")
        vote = votes.get(name)
        if vote is None:
            yield [shown, "no vote", "", ""]
        else:
            said = click.style("approves", fg="green")
            said = said if vote.approves else click.style("rejects", fg="red")
            yield [shown, said, format_time(vote.time), escape(vote.why)]


def proposal_json(proposal: Proposal) -> dict[str, Any]:
    """Return a proposal as JSON data."""
    names = ("id", "title", "by", "time", "status", "needed", "until", "lapsed", "why", "effect")
    votes = [pick(vote, "member", "approves", "why", "time") for vote in proposal.votes]
    lists = {"voters": list(proposal.voters), "vetoers": list(proposal.vetoers), "votes": votes}
    return pick(proposal, *names) | {"approvals": _approvals(proposal)} | lists


# Conflicts


def inbox_lines(conflicts: Sequence[InboxConflict], state: Branch) -> Iterator[str]:
    """Yield the conflicts of an inbox, each with its sides, who changed them, and when."""
    for each in conflicts:
        title = f"{_bold(each.path)}  {each.kind}"
        id = click.style(each.id, fg="yellow")
        yield f"{click.style('!', fg='red', bold=True)} {id} {title}  {format_time(each.time)}"
        sides = pick(each, "base", "ours", "theirs")
        authors = {"ours": each.our_author, "theirs": each.their_author}
        if each.is_changed:
            sides["now"] = _now(each, state)
        rows = [
            [side, escape(authors.get(side, "")), _value_of(side, value, each, state)]
            for side, value in sides.items()
        ]
        yield from (f"    {line}" for line in table(rows))
        if each.why:
            yield f"    why: {escape(each.why)}"
        if each.note:
            yield f"    note: {escape(each.note)}"


def _now(conflict: InboxConflict, state: Branch) -> object:
    """Return the value that the team has at the path of a conflict now; None if it has none."""
    return None if state.cell_at(conflict.keys) is None else state[conflict.keys]


def _value_of(side: str, value: object, conflict: InboxConflict, state: Branch) -> str:
    is_absent = side in conflict.absent
    if side == "now":
        is_absent = state.cell_at(conflict.keys) is None
    limit = max(40, screen_width() - 24)
    return click.style("absent", dim=True) if is_absent else one_line(value, limit)


def inbox_json(conflict: InboxConflict, state: Branch) -> dict[str, Any]:
    """Return a conflict of an inbox as JSON data; `state` is that of the team."""
    names = ("id", "path", "kind", "why", "note", "time", "our_author", "their_author")
    commits = ("our_commit", "their_commit", "base_commit")
    found = pick(conflict, *names, *commits) | {"absent": list(conflict.absent)}
    sides = pick(conflict, "base", "ours", "theirs")
    found |= {side: to_json(value) for side, value in sides.items()}
    if conflict.is_changed:
        found["now"] = to_json(_now(conflict, state))
    return found


# What is watched


def watched_line(change: WatchedChange) -> str:
    """Return a change on one line: when, by whom, where, and from what to what."""
    values = [] if change.kind == "added" else [one_line(change.old, _WATCHED_LETTERS)]
    values += [] if change.kind == "removed" else [one_line(change.new, _WATCHED_LETTERS)]
    when, by = format_time(change.commit.time), click.style(escape(change.by), fg="cyan")
    return f"{when}  {by}  {sign_of(change.kind)} {_bold(change.path)}  {' -> '.join(values)}"


def watched_json(change: WatchedChange) -> dict[str, Any]:
    """Return a change that was watched as JSON data."""
    commit = change.commit
    about = {"by": change.by, "time": commit.time, "commit": commit.id, "cursor": change.cursor}
    return change_json(change.change) | about


# The page of a team


def value_rows(state: Branch) -> Iterator[list[str]]:
    """Yield a heading, and the values at the top of a state; large ones by kind and size."""
    yield ["shared value", ""]
    for name in state:
        size = state.size(name)
        if size > _LARGE_BYTES:
            yield [_bold(name), f"{state.kind(name)}, {size_text(size)}"]
        else:
            yield [_bold(name), one_line(state[name], max(40, screen_width() - 24))]


def value_json(state: Branch) -> list[dict[str, Any]]:
    """Return the names at the top of a state, with kinds and sizes, as JSON data."""
    return [{"path": name, "kind": state.kind(name), "bytes": state.size(name)} for name in state]


def section(rows: Iterable[list[str]], more: str) -> list[str]:
    """Return a part of a page: a heading and the first rows; without rows, nothing."""
    found = list(islice(rows, _MOST_LISTED + 2))
    if len(found) < 2:
        return []
    heading, *lines = table(found[: _MOST_LISTED + 1])
    rest = [f"… `otolith {escape(more)}` lists all"] if len(found) > _MOST_LISTED + 1 else []
    return ["", click.style(heading, dim=True), *lines, *rest]
