"""Reading states and history: `show`, `diff`, `cat`, `ls`, `blame` and `log`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import click

from otolith.cli.address import Address, parse_address, parse_keys, parse_range, parse_ref_path
from otolith.cli.format.history import (
    ChangedPath,
    Labels,
    Lanes,
    change_json,
    changes_text,
    commit_json,
    first_line,
    format_time,
    heading,
    labels,
    oneline,
    summary,
)
from otolith.cli.format.values import to_json
from otolith.cli.format.workspace import change_report_lines, difference_json, difference_lines
from otolith.cli.location import OpenBranch, open_current
from otolith.cli.options import GlobalOptions
from otolith.cli.terminal import dumps, emit, escape, json_option, page, table
from otolith.core import (
    CONVERSATION,
    LOOP,
    MEMORY,
    WORKSPACE,
    Branch,
    Commit,
    Path,
    Snapshot,
    format_path,
    parse_path,
)
from otolith.errors import KeyNotFound
from otolith.text import size_text
from otolith.views import ChangeLine, change_report
from otolith.workspace import Difference, workspace_diff


class InitialChange(NamedTuple):
    """A path of a first commit, which has no earlier state to compare with."""

    path: str
    new: object
    kind: str = "added"
    old: object = None


class StateDifference(NamedTuple):
    """The difference of two states: values, workspace (variables and files) and agent."""

    changes: Sequence[ChangedPath]
    workspace: Sequence[Difference] = ()
    agent: Sequence[ChangeLine] = ()

    def to_json(self) -> dict[str, object]:
        """Return it as JSON data."""
        return {
            "changes": [change_json(change) for change in self.changes],
            "workspace": [difference_json(each) for each in self.workspace],
            "agent": [each._asdict() for each in self.agent],
        }

    def lines(self) -> Iterator[str]:
        """Yield it as text, in up to three parts."""
        parts = {
            "": list(changes_text(self.changes)),
            "Variables and files:": list(difference_lines(self.workspace)),
            "Conversation, memory and runs:": list(change_report_lines(self.agent)),
        }
        is_first = True
        for title, lines in parts.items():
            if lines:
                yield from [] if is_first else [""]
                yield from [title] if title else []
                yield from lines
                is_first = False

    def paths(self) -> list[str]:
        """Return the paths that differ."""
        paths = [change.path for change in self.changes]
        for each in self.workspace:
            table_name = "vars" if each.what == "variable" else "files"
            paths.append(format_path((WORKSPACE, table_name, each.name)))
        rooms = (_AGENT_PATHS.get(each.what, MEMORY) for each in self.agent)
        return [*paths, *dict.fromkeys(rooms)]

    def counts(self) -> Iterator[str]:
        """Yield the number of differences below each top name."""
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


# Where a kind of change to an agent is stored; kinds that are not listed are in its memory.
_AGENT_PATHS = {"message": CONVERSATION, "run": LOOP}


@click.command("show")
@click.argument("what", default="@", metavar="[REF[:PATH]]")
@json_option
@click.pass_obj
def show(options: GlobalOptions, what: str, as_json: bool) -> None:
    """Show a commit and its changes, or with :PATH the value there at that commit.

    Changes to variables, columns of frames and files are summarised, and so are messages, plan and
    notes of an agent. A merge is compared with its first parent.
    """
    with open_current(options, read_only=True) as current:
        address = parse_ref_path(current, what)
        if address is not None:
            value = to_json(_value(current, address))
            emit({"path": format_path(address.keys), "value": value} if as_json else value)
            return
        commit = current.commit(what)
        changes: Sequence[ChangedPath]
        if commit.parents:
            changes = current.branch.diff(current.commit(commit.parents[0]), commit)
        else:
            state = current.repo.at(commit)
            changes = [InitialChange(name, state[name]) for name in state]
        found = StateDifference(
            changes,
            workspace_diff(current.branch, new=commit),
            change_report(current.branch, new=commit),
        )
        if as_json:
            emit(commit_json(commit) | found.to_json())
            return
        names = labels(current.repo, current.branch.session, here=current.branch.name)
        page([*heading(commit, names), "", *found.lines()], options)


@click.command("diff")
@click.argument("refs", nargs=-1, metavar="[A [B] | A..B | A...B]")
@click.option("--stat", is_flag=True, help="Only the number of paths, below each top name.")
@click.option("--name-only", is_flag=True, help="Only the paths.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 if there are differences.")
@json_option
@click.pass_context
def diff(
    ctx: click.Context,
    *,
    refs: tuple[str, ...],
    stat: bool,
    name_only: bool,
    exit_code: bool,
    as_json: bool,
) -> None:
    """Show the changes from A to B; from A to the staged state; or the staged changes.

    A...B shows what B changed since it left A. Branches of another session are `session/branch`.
    Changes to variables, files, conversation, plan and notes are summarised.
    """
    options: GlobalOptions = ctx.obj
    with open_current(options, read_only=True) as current:
        old, new = parse_range(current, refs)
        found = StateDifference(current.branch.diff(old, new))
        if old is not None:
            found = found._replace(
                workspace=workspace_diff(current.branch, old, new),
                agent=change_report(current.branch, old, new),
            )
        if as_json:
            emit(found.to_json())
        elif name_only:
            page(map(escape, found.paths()), options)
        elif stat:
            page(found.counts(), options)
        else:
            page(found.lines(), options)
    ctx.exit(1 if exit_code and any(found) else 0)


@click.command("cat")
@click.argument("address", metavar="[REF:]PATH")
@json_option
@click.pass_obj
def cat(options: GlobalOptions, address: str, as_json: bool) -> None:
    """Print the value at PATH, as staged or at REF.

    Text and bytes are printed raw, other values as JSON.
    """
    with open_current(options, read_only=True) as current:
        parsed = parse_address(current, address)
        value = _value(current, parsed)
    if as_json:
        emit({"path": format_path(parsed.keys), "value": to_json(value)})
    elif isinstance(value, bytes | bytearray):
        click.echo(bytes(value), nl=False)
    elif isinstance(value, str):
        click.echo(value.encode("utf-8", "surrogatepass"))
    else:
        click.echo(dumps(to_json(value)))


def _value(current: OpenBranch, address: Address) -> object:
    state = address.state(current)
    return state[address.keys] if address.keys else state.to_dict()


@click.command("ls")
@click.argument("address", default="", metavar="[[REF:]PATH]")
@click.option("-l", "is_long", is_flag=True, help="With kinds, lengths and sizes.")
@json_option
@click.pass_obj
def ls(options: GlobalOptions, address: str, is_long: bool, as_json: bool) -> None:
    """List the names at PATH, or at the top. The size is that of the full encoding."""
    with open_current(options, read_only=True) as current:
        parsed = parse_address(current, address)
        state = parsed.state(current)
        entries = [_entry(state, keys) for keys in _children(state, parsed.keys)]
    if as_json:
        found = [entry._asdict() for entry in entries]
        emit({"path": format_path(parsed.keys), "entries": found})
    elif is_long:
        rows = [
            [
                entry.kind,
                "" if entry.length is None else f"{entry.length:,}",
                size_text(entry.bytes),
                escape(entry.name),
            ]
            for entry in entries
        ]
        page(table(rows, right=(1, 2)), options)
    else:
        page((escape(entry.name) for entry in entries), options)


class ListEntry(NamedTuple):
    """One line of `ls`."""

    name: str
    kind: str
    length: int | None
    bytes: int


def _children(state: Branch | Snapshot, keys: tuple[object, ...]) -> list[tuple[object, ...]]:
    """Return the keys of the entries at a path, or of the path itself if it has none."""
    kind = state.kind(keys)
    if not keys:
        return [parse_path(name) for name in state]
    if kind == "map":
        return [(*keys, key) for key in state.map(keys)]
    if kind == "list":
        return [(*keys, str(at)) for at in range(len(state.list(keys)))]
    return [keys]


def _entry(state: Branch | Snapshot, keys: tuple[object, ...]) -> ListEntry:
    kind = state.kind(keys)
    count = None
    if kind == "map":
        count = len(state.map(keys))
    elif kind == "list":
        count = len(state.list(keys))
    name = format_path(keys[-1:]) + ("/" if kind == "map" else "")
    return ListEntry(name, kind, count, state.size(keys))


@click.command("blame")
@click.argument("path", default="")
@click.option("--at", "ref", default="@", metavar="REF", help="As of this commit.")
@json_option
@click.pass_obj
def blame(options: GlobalOptions, path: str, ref: str, as_json: bool) -> None:
    """Show the commit that last set PATH, or each entry of the map there."""
    with open_current(options, read_only=True) as current:
        found = current.branch.blame(parse_keys(path), at=current.commit(ref))
    if path and not found:
        raise KeyNotFound(f"nothing at {path}")
    if as_json:
        emit({"blame": [{"path": b.path, "commit": commit_json(b.commit)} for b in found]})
        return
    rows = [
        [
            click.style(commit.short, fg="yellow"),
            escape(commit.author),
            format_time(commit.time),
            click.style(escape(where), bold=True),
            first_line(commit),
        ]
        for where, commit in found
    ]
    page(table(rows), options)


@click.command("log")
@click.argument("ref", required=False)
@click.option("--graph", "as_graph", is_flag=True, help="Draw the ancestry beside the commits.")
@click.option("--oneline", "on_one_line", is_flag=True, help="One line per commit.")
@click.option("-n", "--limit", type=click.IntRange(min=0), metavar="N", help="At most N commits.")
@click.option("--path", metavar="PATH", help="Only commits that changed this path.")
@click.option("--var", metavar="NAME", help="Only commits that changed this variable.")
@click.option("--all", "everything", is_flag=True, help="All branches of the session.")
@json_option
@click.pass_obj
def log(
    options: GlobalOptions,
    *,
    ref: str | None,
    as_graph: bool,
    on_one_line: bool,
    limit: int | None,
    path: str | None,
    var: str | None,
    everything: bool,
    as_json: bool,
) -> None:
    """Show commits, newest first: of the current branch, or up to REF."""
    if as_graph and (path is not None or var is not None):
        raise click.UsageError("--graph draws whole histories\nomit --path and --var, or --graph")
    if path is not None and var is not None:
        raise click.UsageError("give --path or --var, not both")
    keys = (WORKSPACE, "vars", var) if var is not None else path
    with open_current(options, read_only=True) as current:
        commits = islice(_commits(current, ref, keys, everything=everything), limit)
        if as_json:
            emit({"commits": [commit_json(commit) for commit in commits]})
            return
        names = labels(current.repo, current.branch.session, here=current.branch.name)
        lanes = Lanes() if as_graph else None
        page(_log_lines(commits, names, lanes, on_one_line=on_one_line), options)


def _commits(
    current: OpenBranch, ref: str | None, path: str | Path | None, *, everything: bool
) -> Iterator[Commit]:
    tips = list(current.repo.branches(current.branch.session).values()) if everything else []
    if ref is not None or not tips:
        tips.append(current.commit(ref or "@"))
    if path is None:
        return current.repo.backend.graph.log(*tips)
    found = {found.id: found for tip in tips for found in current.branch.log(tip, path=path)}
    return iter(sorted(found.values(), key=lambda commit: (-commit.time, commit.id)))


def _log_lines(
    commits: Iterator[Commit], names: Labels, lanes: Lanes | None, *, on_one_line: bool
) -> Iterator[str]:
    for count, commit in enumerate(commits):
        if lanes is not None:
            text = [oneline(commit, names)] if on_one_line else [*heading(commit, names), ""]
            yield from lanes.rows(commit, text)
        elif on_one_line:
            yield oneline(commit, names)
        else:
            yield from [""] * bool(count)
            yield from heading(commit, names)
