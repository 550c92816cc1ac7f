"""Reading states and history: `show`, `diff`, `cat`, `ls`, `blame` and `log`.

All are read-only. Without a commit they read the staged state. A difference has three parts.
Values are listed by path. What a workspace or an agent stores below reserved names (`.workspace`,
`.conversation`, ...) would be unreadable as values, so it is summarised as variables and files,
messages, plan and runs.
JSON:

    show        a commit, and the three parts: changes, workspace, agent; of a user preferences
    show, cat   of a path: path, value
    diff        changes, workspace, agent
    ls          path, entries (name, kind, length, bytes)
    blame       blame (path, commit)
    log         commits; with --steps, each has folded (ids of commits) and did (lines)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain, islice
from typing import NamedTuple

import click

from otolith.cli.address import Address, parse_address, parse_keys, parse_range, parse_ref_path
from otolith.cli.format.history import (
    FoldedStep,
    InitialChange,
    Labels,
    Lanes,
    commit_json,
    first_line,
    fold_steps,
    format_time,
    heading,
    labels,
    oneline,
    plural,
    short_id,
)
from otolith.cli.format.profiles import preference_json, profile_section
from otolith.cli.format.state_difference import StateDifference
from otolith.cli.format.values import to_json
from otolith.cli.location import OpenBranch, open_current
from otolith.cli.options import GlobalOptions, SessionCommand, at_option, json_option
from otolith.cli.terminal import dumps, emit, escape, output, table
from otolith.codecs import Document
from otolith.core import (
    WORKSPACE,
    Branch,
    Commit,
    Path,
    Snapshot,
    format_path,
    parse_path,
)
from otolith.errors import KeyNotFound
from otolith.profiles import Preference, Profile
from otolith.text import clip, size_text
from otolith.views import change_report
from otolith.workspace import workspace_diff

_SAID_LETTERS = 100  # of an answer, in `log --steps`


@click.command("show", cls=SessionCommand)
@click.argument("what", default="@", metavar="[REF[:PATH]]")
@json_option
@click.pass_obj
def show(options: GlobalOptions, what: str) -> None:
    """Show a commit and its changes, or with :PATH the value there at that commit.

    Changes to variables, columns of frames and files are summarised, and so are messages, plan and
    notes of an agent, and the profile of a user. A merge is compared with its first parent.
    """
    with open_current(options, read_only=True) as current:
        address = None if what in current.refs() else parse_ref_path(current, what)
        if address is not None:
            value = to_json(_value(current, address))
            path = format_path(address.keys)
            emit({"path": path, "value": value} if options.as_json else value)
            return
        commit = current.commit(what)
        if commit.parents:
            changes = current.branch.diff(current.commit(commit.parents[0]), commit)
            found = StateDifference.of(changes)
        else:
            state = current.repo.at(commit)
            found = StateDifference(
                [InitialChange(name, state[name]) for name in state],
                workspace_diff(current.branch, new=commit),
                change_report(current.branch, new=commit),
            )
        known = _known(current, commit)
        section = profile_section(current.branch.session, known or [])
        lines = chain(heading(commit, _labels(current)), [""], found.lines(), section)
        output(options, lambda: _commit_data(commit, found, known), lines)


def _known(current: OpenBranch, commit: Commit) -> list[Preference] | None:
    """Return what is known about a user at a commit; None of other states."""
    if current.branch.scope != "user":
        return None
    found: Profile = current.branch.profile.at(commit)
    return found.preferences()


def _commit_data(
    commit: Commit, found: StateDifference, known: list[Preference] | None
) -> dict[str, object]:
    """Return a commit with its changes as JSON data, and of a user what is known."""
    more = {} if known is None else {"preferences": [preference_json(each) for each in known]}
    return commit_json(commit) | found.to_json() | more


@click.command("diff", cls=SessionCommand)
@click.argument("refs", nargs=-1, metavar="[A [B] | A..B | A...B]")
@click.option("--stat", is_flag=True, help="Only the number of paths, below each top name.")
@click.option("--name-only", is_flag=True, help="Only the paths.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 if there are differences.")
@json_option
@click.pass_context
def diff(
    ctx: click.Context, *, refs: tuple[str, ...], stat: bool, name_only: bool, exit_code: bool
) -> None:
    """Show the changes from A to B; from A to the staged state; or the staged edits.

    A...B shows what B changed since it left A. Branches of another session are `session/branch`.
    Changes to variables, files, conversation, plan and notes are summarised.
    """
    options: GlobalOptions = ctx.obj
    with open_current(options, read_only=True) as current:
        old, new = parse_range(current, refs)
        found = StateDifference.of(current.branch.diff(old, new))
        lines = found.counts() if stat else found.lines()
        output(options, found.to_json, map(escape, found.paths()) if name_only else lines)
    ctx.exit(1 if exit_code and any(found) else 0)


@click.command("cat", cls=SessionCommand)
@click.argument("address", metavar="[REF:]PATH")
@json_option
@click.pass_obj
def cat(options: GlobalOptions, address: str) -> None:
    """Print the value at PATH, as staged or at REF.

    Texts and bytes are printed raw, other values as JSON.
    """
    with open_current(options, read_only=True) as current:
        parsed = parse_address(current, address)
        value = _value(current, parsed)
    if options.as_json:
        emit({"path": format_path(parsed.keys), "value": to_json(value)})
    elif isinstance(value, bytes | bytearray):
        click.echo(bytes(value), nl=False)
    elif isinstance(value, str):
        click.echo(value.encode("utf-8", "surrogatepass"))
    elif isinstance(value, Document):
        click.echo(value.value.encode())
    else:
        click.echo(dumps(to_json(value)))


def _value(current: OpenBranch, address: Address) -> object:
    """Return the value at an address; without keys, the whole state."""
    state = address.state(current)
    return state[address.keys] if address.keys else state.to_dict()


@click.command("ls", cls=SessionCommand)
@click.argument("address", default="", metavar="[[REF:]PATH]")
@click.option("-l", "is_long", is_flag=True, help="With kinds, lengths and sizes.")
@json_option
@click.pass_obj
def ls(options: GlobalOptions, address: str, is_long: bool) -> None:
    """List the names at PATH, or at the top. The size is that of the full encoding."""
    with open_current(options, read_only=True) as current:
        parsed = parse_address(current, address)
        state = parsed.state(current)
        entries = list(_list_entries(state, parsed.keys))
    path, found = format_path(parsed.keys), [entry._asdict() for entry in entries]
    names = [escape(entry.name) for entry in entries]
    lines = table([entry.row() for entry in entries], right=(1, 2)) if is_long else names
    output(options, lambda: {"path": path, "entries": found}, lines)


class ListEntry(NamedTuple):
    """One line of `ls`; only maps and lists have a length."""

    name: str
    kind: str
    length: int | None
    bytes: int

    def row(self) -> list[str]:
        """Return it as the columns of `ls -l`."""
        length = "" if self.length is None else f"{self.length:,}"
        return [self.kind, length, size_text(self.bytes), escape(self.name)]


def _list_entries(state: Branch | Snapshot, keys: tuple[object, ...]) -> Iterator[ListEntry]:
    """Yield the entries at a path, or the path itself if it is not a map or list."""
    if not keys:
        below = [parse_path(name) for name in state]
    else:
        inside = _inside(state, keys)
        names = map(str, inside) if isinstance(inside, range) else inside
        below = [keys] if names is None else [(*keys, name) for name in names]
    for each in below:
        kind, inside = state.kind(each), _inside(state, each)
        name = format_path(each[-1:]) + ("/" if kind == "map" else "")
        length = None if inside is None else len(inside)
        yield ListEntry(name, kind, length, state.size(each))


def _inside(state: Branch | Snapshot, keys: tuple[object, ...]) -> Collection[object] | None:
    """Return the keys of a map, or the positions of a list; None for other values."""
    kind = state.kind(keys)
    if kind == "map":
        return state.map(keys)
    return range(len(state.list(keys))) if kind == "list" else None


@click.command("blame", cls=SessionCommand)
@click.argument("path", default="")
@at_option
@json_option
@click.pass_obj
def blame(options: GlobalOptions, path: str, ref: str) -> None:
    """Show the commit that last set PATH, or each entry of the map or model there."""
    with open_current(options, read_only=True) as current:
        found = current.branch.blame(parse_keys(path), at=current.commit(ref))
    if path and not found:
        raise KeyNotFound(f"nothing at {path}")
    rows = []
    for where, commit in found:
        path, when = click.style(escape(where), bold=True), format_time(commit.time)
        rows.append([short_id(commit), escape(commit.author), when, path, first_line(commit)])
    data = [{"path": where, "commit": commit_json(commit)} for where, commit in found]
    output(options, lambda: {"blame": data}, table(rows))


@click.command("log", cls=SessionCommand)
@click.argument("ref", required=False)
@click.option("--graph", "as_graph", is_flag=True, help="Draw the ancestry beside the commits.")
@click.option("--oneline", "on_one_line", is_flag=True, help="One line per commit.")
@click.option("-n", "--limit", type=click.IntRange(min=0), metavar="N", help="At most N commits.")
@click.option("--path", metavar="PATH", help="Only commits that changed this path.")
@click.option("--var", metavar="NAME", help="Only commits that changed this variable.")
@click.option("--all", "everything", is_flag=True, help="All branches of the session.")
@click.option("--steps", is_flag=True, help="One line per step of an agent, with what it did.")
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
    steps: bool,
) -> None:
    """Show commits, newest first: of the current branch, or up to REF.

    With `--steps`, the replies, effects and code that belong to a step of an agent are folded into
    it.
    """
    if steps and (as_graph or everything or path is not None or var is not None):
        raise click.UsageError("--steps folds one branch\nomit --graph, --all, --path and --var")
    if as_graph and (path is not None or var is not None):
        raise click.UsageError("--graph draws whole histories\nomit --path and --var, or --graph")
    if path is not None and var is not None:
        raise click.UsageError("give --path or --var, not both")
    keys = (WORKSPACE, "vars", var) if var is not None else path
    with open_current(options, read_only=True) as current:
        commits = _commits(current, ref, keys, everything=everything)
        if steps:
            _print_steps(current, commits, limit, options)
            return
        commits = islice(commits, limit)
        lanes = Lanes() if as_graph else None
        lines = _log_lines(commits, _labels(current), lanes, on_one_line=on_one_line)
        output(options, lambda: {"commits": [commit_json(commit) for commit in commits]}, lines)


class AgentStep(NamedTuple):
    """One line of `log --steps`: a commit, those that are folded into it, and what they did."""

    commit: Commit
    parts: list[Commit]
    did: list[str]

    def line(self, names: Labels) -> str:
        """Return it as text."""
        phase = str(self.commit.meta.get("phase", ""))
        ending = f", {phase}" if phase in ("done", "error", "paused") else ""
        count = f"  [{plural(len(self.parts) + 1, 'commit')}]" if self.parts else ""
        did = f"  {escape('; '.join(self.did))}" if self.did else ""
        return oneline(self.commit, names) + ending + did + click.style(count, dim=True)

    def to_json(self) -> dict[str, object]:
        """Return it as JSON data."""
        folded = [part.id for part in self.parts]
        return commit_json(self.commit) | {"folded": folded, "did": self.did}


def _print_steps(
    current: OpenBranch, commits: Iterator[Commit], limit: int | None, options: GlobalOptions
) -> None:
    """Print commits, those of an agent folded into its steps."""
    found = (_agent_step(current, step) for step in islice(fold_steps(commits), limit))
    names = _labels(current)
    lines = (each.line(names) for each in found)
    output(options, lambda: {"commits": [each.to_json() for each in found]}, lines)


def _agent_step(current: OpenBranch, step: FoldedStep) -> AgentStep:
    """Return a step with its calls of tools; without calls, with what the model said."""
    if not step.is_agent:
        return AgentStep(step.commit, step.parts, [])
    changes = change_report(current.branch, step.before, step.commit)
    calls = [each.text for each in changes if each.what == "call" and each.how == "added"]
    said = [
        clip(each.text.removeprefix("assistant: "), _SAID_LETTERS)
        for each in changes
        if each.what == "message" and each.text.startswith("assistant: ")
    ]
    return AgentStep(step.commit, step.parts, calls or said[-1:])


def _labels(current: OpenBranch) -> Labels:
    """Return the branches of the session, and the tags, by the commits they point at."""
    return labels(current.heads(), current.repo.tags(), here=current.branch.name)


def _commits(
    current: OpenBranch, ref: str | None, path: str | Path | None, *, everything: bool
) -> Iterator[Commit]:
    """Yield the commits that `log` shows, newest first; with a path, those that changed it."""
    tips = list(current.heads().values()) if everything else []
    if ref is not None or not tips:
        tips.append(current.commit(ref or "@"))
    if path is None:
        return current.repo.backend.graph.log(*tips)
    found = {found.id: found for tip in tips for found in current.branch.log(tip, path=path)}
    return iter(sorted(found.values(), key=lambda commit: (-commit.time, commit.id)))


def _log_lines(
    commits: Iterator[Commit], names: Labels, lanes: Lanes | None, *, on_one_line: bool
) -> Iterator[str]:
    """Yield commits as text, beside their ancestry if there are lanes to draw it in."""
    for count, commit in enumerate(commits):
        if lanes is not None:
            text = [oneline(commit, names)] if on_one_line else [*heading(commit, names), ""]
            yield from lanes.rows(commit, text)
        elif on_one_line:
            yield oneline(commit, names)
        else:
            yield from [""] * bool(count)
            yield from heading(commit, names)
