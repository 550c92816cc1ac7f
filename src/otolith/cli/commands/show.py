"""Looking at states: `show` and `diff` what changed, `cat` and `ls` what is there, `blame` who.

`log`: commits, the latest first, on lines or as a graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import click

from otolith.cli.address import Address, divided, keys_of, place_in_state, range_of
from otolith.cli.format.history import (
    Changed,
    Labels,
    Lanes,
    change_json,
    changes_text,
    commit_json,
    first_line,
    heading,
    labels,
    moment,
    oneline,
    size,
    summary,
)
from otolith.cli.format.values import to_json
from otolith.cli.format.workspace import difference_json, difference_lines, told_lines
from otolith.cli.location import OpenBranch, at_hand
from otolith.cli.options import GlobalOptions
from otolith.cli.terminal import dumps, emit, json_option, page, safe, table
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
from otolith.views import ChangeLine, change_report
from otolith.workspace import Difference, workspace_diff


class Added(NamedTuple):
    """A change that begins a history: there is no earlier state to compare with."""

    path: str
    new: object
    kind: str = "added"
    old: object = None


class Found(NamedTuple):
    """What differs between two states: values, variables and files, what an agent said and did."""

    changes: Sequence[Changed]
    work: Sequence[Difference] = ()
    told: Sequence[ChangeLine] = ()

    def to_json(self) -> dict[str, object]:
        """Return it for programs."""
        return {
            "changes": [change_json(change) for change in self.changes],
            "workspace": [difference_json(each) for each in self.work],
            "agent": [each._asdict() for each in self.told],
        }

    def lines(self) -> Iterator[str]:
        """Yield it for a person."""
        values = changes_text(self.changes)
        parts = [("", list(values))] if self.changes or not (self.work or self.told) else []
        parts += [("Variables and files:", list(difference_lines(self.work)))] if self.work else []
        parts += [("Said and done:", list(told_lines(self.told)))] if self.told else []
        for number, (title, lines) in enumerate(parts):
            yield from [""] * bool(number)
            yield from [title] * bool(title)
            yield from lines

    def places(self) -> list[str]:
        """Return where something differs."""
        own = dict.fromkeys(_ROOMS.get(each.what, MEMORY) for each in self.told)
        return [*(change.path for change in self.changes), *map(_place, self.work), *own]

    def counts(self) -> Iterator[str]:
        """Yield how many differ, below each top name."""
        below: dict[str, list[Changed]] = {}
        for change in self.changes:
            below.setdefault(change.path.partition("/")[0], []).append(change)
        rows = [[safe(f" {name}"), summary(some)] for name, some in below.items()]
        hows: list[tuple[str, str]] = [(each.what, each.how) for each in self.work]
        hows += [(each.what, each.how) for each in self.told]
        for what in dict.fromkeys(what for what, _ in hows):
            alike = [how for each, how in hows if each == what]
            counts = [f"{alike.count(how)} {how}" for how in dict.fromkeys(alike)]
            rows.append([f" {what}s", ", ".join(counts)])
        yield from table(rows)
        if self.changes or not hows:
            yield f"{len(self.changes):,} in all: {summary(self.changes)}"


# Where what is told of an agent is kept; whatever is not listed is in its memory.
_ROOMS = {"message": CONVERSATION, "run": LOOP}


def _place(difference: Difference) -> str:
    table = "vars" if difference.what == "variable" else "files"
    return format_path((WORKSPACE, table, difference.name))


@click.command("show")
@click.argument("what", default="@", metavar="[REF[:PATH]]")
@json_option
@click.pass_obj
def show(asked: GlobalOptions, what: str, as_json: bool) -> None:
    """Show a commit and what it changed, or with :PATH the value there as it was.

    What a step did to variables, columns of frames and files is told in words, and so is what an
    agent said, planned and noted. A merge is compared with its first parent: what it brought into
    the branch.
    """
    with at_hand(asked, read_only=True) as desk:
        place = divided(desk, what)
        if place is not None:
            value = to_json(_value(desk, place))
            emit({"path": format_path(place.keys), "value": value} if as_json else value)
            return
        commit = desk.commit(what)
        found = Found(
            _changes_of(desk, commit),
            workspace_diff(desk.branch, new=commit),
            change_report(desk.branch, new=commit),
        )
        if as_json:
            emit(commit_json(commit) | found.to_json())
            return
        names = labels(desk.repo, desk.branch.session, here=desk.branch.name)
        page([*heading(commit, names), "", *found.lines()], asked)


def _changes_of(desk: OpenBranch, commit: Commit) -> Sequence[Changed]:
    if commit.parents:
        return desk.branch.diff(desk.commit(commit.parents[0]), commit)
    state = desk.repo.at(commit)
    return [Added(name, state[name]) for name in state]


@click.command("diff")
@click.argument("refs", nargs=-1, metavar="[A [B] | A..B | A...B]")
@click.option("--stat", is_flag=True, help="Only how many paths differ, below each top name.")
@click.option("--name-only", is_flag=True, help="Only the paths.")
@click.option("--exit-code", is_flag=True, help="Leave with 1 if there are differences.")
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
    """Show what differs from A to B; from A to what is staged; or what is staged.

    A...B shows what B changed since it left A. Branches of another session are `session/branch`.
    What steps did to variables and files, and what an agent said and planned, is told in words.
    """
    asked: GlobalOptions = ctx.obj
    with at_hand(asked, read_only=True) as desk:
        old, new = range_of(desk, refs)
        found = Found(desk.branch.diff(old, new))
        if old is not None:
            told = change_report(desk.branch, old, new)
            found = found._replace(work=workspace_diff(desk.branch, old, new), told=told)
        if as_json:
            emit(found.to_json())
        elif name_only:
            page(map(safe, found.places()), asked)
        elif stat:
            page(found.counts(), asked)
        else:
            page(found.lines(), asked)
    ctx.exit(1 if exit_code and any(found) else 0)


@click.command("cat")
@click.argument("place", metavar="[REF:]PATH")
@json_option
@click.pass_obj
def cat(asked: GlobalOptions, place: str, as_json: bool) -> None:
    """Print the value at PATH, as staged or as it was at REF.

    Text and bytes come out as they are, anything else as JSON.
    """
    with at_hand(asked, read_only=True) as desk:
        address = place_in_state(desk, place)
        value = _value(desk, address)
    if as_json:
        emit({"path": format_path(address.keys), "value": to_json(value)})
    elif isinstance(value, bytes | bytearray):
        click.echo(bytes(value), nl=False)
    elif isinstance(value, str):
        click.echo(value.encode("utf-8", "surrogatepass"))
    else:
        click.echo(dumps(to_json(value)))


def _value(desk: OpenBranch, address: Address) -> object:
    state = address.state(desk)
    return state[address.keys] if address.keys else state.to_dict()


@click.command("ls")
@click.argument("place", default="", metavar="[[REF:]PATH]")
@click.option("-l", "is_long", is_flag=True, help="With kinds, counts and sizes.")
@json_option
@click.pass_obj
def ls(asked: GlobalOptions, place: str, is_long: bool, as_json: bool) -> None:
    """List the names at PATH, or at the top. A size is that of the full encoding."""
    with at_hand(asked, read_only=True) as desk:
        address = place_in_state(desk, place)
        state = address.state(desk)
        entries = [_entry(state, keys) for keys in _below(state, address.keys)]
    if as_json:
        found = [entry._asdict() for entry in entries]
        emit({"path": format_path(address.keys), "entries": found})
    elif is_long:
        rows = [
            [entry.kind, entry.shown_length, size(entry.bytes), safe(entry.name)]
            for entry in entries
        ]
        page(table(rows, right=(1, 2)), asked)
    else:
        page((safe(entry.name) for entry in entries), asked)


class Entry(NamedTuple):
    """One line of `ls`."""

    name: str
    kind: str
    length: int | None
    bytes: int

    @property
    def shown_length(self) -> str:
        return "" if self.length is None else f"{self.length:,}"


def _below(state: Branch | Snapshot, keys: tuple[object, ...]) -> list[tuple[object, ...]]:
    """Return the places below one, or the place itself if it holds nothing."""
    kind = state.kind(keys)
    if not keys:
        return [parse_path(name) for name in state]
    if kind == "map":
        return [(*keys, key) for key in state.map(keys)]
    if kind == "list":
        return [(*keys, str(at)) for at in range(len(state.list(keys)))]
    return [keys]


def _entry(state: Branch | Snapshot, keys: tuple[object, ...]) -> Entry:
    kind = state.kind(keys)
    count = None
    if kind == "map":
        count = len(state.map(keys))
    elif kind == "list":
        count = len(state.list(keys))
    name = format_path(keys[-1:]) + ("/" if kind == "map" else "")
    return Entry(name, kind, count, state.size(keys))


@click.command("blame")
@click.argument("path", default="")
@click.option("--at", "ref", default="@", metavar="REF", help="As of this commit.")
@json_option
@click.pass_obj
def blame(asked: GlobalOptions, path: str, ref: str, as_json: bool) -> None:
    """Show which commit gave PATH, or each entry of the map there, the value it has."""
    with at_hand(asked, read_only=True) as desk:
        found = desk.branch.blame(keys_of(path), at=desk.commit(ref))
    if path and not found:
        raise KeyNotFound(f"nothing at {path}")
    if as_json:
        emit({"blame": [{"path": b.path, "commit": commit_json(b.commit)} for b in found]})
        return
    rows = [
        [
            click.style(commit.short, fg="yellow"),
            safe(commit.author),
            moment(commit.time),
            click.style(safe(where), bold=True),
            first_line(commit),
        ]
        for where, commit in found
    ]
    page(table(rows), asked)


@click.command("log")
@click.argument("ref", required=False)
@click.option("--graph", "as_graph", is_flag=True, help="Draw how commits descend from each other.")
@click.option("--oneline", "on_one_line", is_flag=True, help="One line per commit.")
@click.option("-n", "--limit", type=click.IntRange(min=0), metavar="N", help="At most N commits.")
@click.option("--path", metavar="PATH", help="Only commits that changed this path.")
@click.option("--var", metavar="NAME", help="Only commits that changed this variable.")
@click.option("--all", "everything", is_flag=True, help="All branches of the session.")
@json_option
@click.pass_obj
def log(
    asked: GlobalOptions,
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
    """Show commits, the latest first: of the branch at hand, or up to REF."""
    if as_graph and (path is not None or var is not None):
        raise click.UsageError("--graph draws whole histories\nleave out --path, or --graph")
    if path is not None and var is not None:
        raise click.UsageError("say --path or --var, not both")
    keys = (WORKSPACE, "vars", var) if var is not None else path
    with at_hand(asked, read_only=True) as desk:
        commits = islice(_commits(desk, ref, keys, everything=everything), limit)
        if as_json:
            emit({"commits": [commit_json(commit) for commit in commits]})
            return
        names = labels(desk.repo, desk.branch.session, here=desk.branch.name)
        if as_graph:
            page(_graph(commits, names, on_one_line=on_one_line), asked)
        else:
            page(_plain(commits, names, on_one_line=on_one_line), asked)


def _commits(
    desk: OpenBranch, ref: str | None, path: str | Path | None, *, everything: bool
) -> Iterator[Commit]:
    tips = list(desk.repo.branches(desk.branch.session).values()) if everything else []
    if ref is not None or not tips:
        tips.append(desk.commit(ref or "@"))
    if path is None:
        return desk.repo.backend.graph.log(*tips)
    found = {found.id: found for tip in tips for found in desk.branch.log(tip, path=path)}
    return iter(sorted(found.values(), key=lambda commit: (-commit.time, commit.id)))


def _plain(commits: Iterator[Commit], names: Labels, *, on_one_line: bool) -> Iterator[str]:
    for count, commit in enumerate(commits):
        if on_one_line:
            yield oneline(commit, names)
            continue
        if count:
            yield ""
        yield from heading(commit, names)


def _graph(commits: Iterator[Commit], names: Labels, *, on_one_line: bool) -> Iterator[str]:
    lanes = Lanes()
    for commit in commits:
        text = [oneline(commit, names)] if on_one_line else [*heading(commit, names), ""]
        yield from lanes.rows(commit, text)
