"""`team`: what the members of a team do together, and what they see of each other.

All commands work on one team: the one that is named, or the only one of the store. Those that
write act as a member, who must be named, by `--as` or $OTOLITH_MEMBER, and must be one already:
a mistyped name adds nobody. Only `add` adds members, and begins a team.

A command reads, decides and writes at once, as the room `teams` does. So a vote is for what landing
would do now, which may be something else than what its voter has seen: `--effect` refuses that.

JSON: an object with `team`, and with what is listed under its plural, such as `leases`; a queue and
a proposal are objects with `team` in them. `format/teams.py` describes the objects.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import click

from otolith.cli.errors import terminal_error, with_terminal_hint
from otolith.cli.format.history import commit_json, conflict_json, oneline, plural
from otolith.cli.format.state_difference import StateDifference
from otolith.cli.format.teams import (
    inbox_json,
    inbox_lines,
    lease_json,
    lease_rows,
    member_json,
    member_rows,
    message_json,
    message_rows,
    owner_json,
    owner_rows,
    proposal_json,
    proposal_lines,
    proposal_rows,
    queue_json,
    queue_lines,
    queue_rows,
    section,
    value_json,
    value_rows,
    watched_json,
    watched_line,
)
from otolith.cli.format.values import parse_value
from otolith.cli.location import check_member, find, open_repo, open_team, ref_not_found
from otolith.cli.options import (
    GlobalOptions,
    TeamCommand,
    json_lines_option,
    json_option,
    team_argument,
)
from otolith.cli.terminal import dumps, escape, escape_line, output, table
from otolith.core import Branch, Commit, scope_ref, stage_ref
from otolith.errors import Conflict, IllegalTransition, KeyNotFound, MergeConflict, RefNotFound
from otolith.session import Versioned
from otolith.teams import Proposal, Team


@click.group("team")
def team() -> None:
    """Work as a team: members, leases, queues, proposals, conflicts, messages.

    What changes something needs the name of a member: --as MEMBER, or $OTOLITH_MEMBER.
    """


def _list(
    options: GlobalOptions,
    id: str,
    name: str,
    found: Sequence[Any],
    *,
    rows: Callable[[Sequence[Any]], list[list[str]]],
    as_json: Callable[[Any], dict[str, Any]],
    none: str,
) -> None:
    """Print what a team has of something as a table, or say that there is none."""
    lines = table(rows(found)) if found else [none]
    output(options, lambda: {"team": id, name: [as_json(each) for each in found]}, lines)


# Looking


@team.command("show", cls=TeamCommand)
@team_argument
@json_option
@click.pass_obj
def show(options: GlobalOptions) -> None:
    """Show members, shared values, leases, queues, open proposals and the inbox, on one page."""
    with open_team(options) as found:
        output(options, lambda: _page_json(found), _page_lines(found))


def _page_json(found: Team[Versioned]) -> dict[str, Any]:
    head = found.state.head
    return {
        "team": found.id,
        "head": None if head is None else commit_json(head),
        "members": [member_json(each) for each in found.members()],
        "values": value_json(found.state),
        "leases": [lease_json(each) for each in found.leases()],
        "queues": [queue_json(each) for each in found.queues()],
        "proposals": [proposal_json(each) for each in found.proposals(status="open")],
        "inbox": len(found.inbox),
    }


def _page_lines(found: Team[Versioned]) -> Iterator[str]:
    """Yield the page of a team; what it has none of is left out."""
    members, head = found.members(), found.state.head
    present = sum(each.is_present for each in members)
    name = click.style(escape(found.id), bold=True)
    yield f"Team {name}: {plural(len(members), 'member')}, {present} present"
    if head is not None:
        yield f"Head {oneline(head)}"
    named = shlex.join(["--team", found.id])
    parts: list[tuple[Iterable[list[str]], str]] = [
        (member_rows(members), "team members"),
        (value_rows(found.state), "ls -l"),
        (lease_rows(found.leases()), "team leases"),
        (queue_rows(found.queues()), "team queues"),
        (proposal_rows(found.proposals(status="open")), "team proposals"),
    ]
    for rows, command in parts:
        yield from section(rows, f"{named} {command}")
    if count := len(found.inbox):
        yield ""
        yield f"{plural(count, 'conflict')} to decide: `otolith team inbox`"


@team.command("watch", cls=TeamCommand)
@click.argument("words", nargs=-1, metavar="[TEAM] [PREFIX]")
@click.option("--since", metavar="WHERE", help="Begin after this commit, or at this cursor.")
@click.option("-n", "--limit", type=click.IntRange(min=0), metavar="N", help="End after N changes.")
@json_lines_option
@click.pass_obj
def watch(
    options: GlobalOptions, words: tuple[str, ...], since: str | None, limit: int | None
) -> None:
    """Print each change that members make below PREFIX, a line each, until Ctrl-C.

    A single word is the TEAM if there is one of that name, and else the PREFIX. With --json each
    line has a `cursor`: --since CURSOR goes on after that change.
    """
    options, prefix = _watched_place(options, words)
    with open_team(options) as found, found.watch(prefix, since=since) as changes:
        for change in islice(changes, limit):
            line = dumps(watched_json(change), indent=None) if options.as_json else None
            click.echo(escape_line(watched_line(change)) if line is None else line)


def _watched_place(options: GlobalOptions, words: tuple[str, ...]) -> tuple[GlobalOptions, str]:
    """Return the options with the team, and the prefix, of `[TEAM] [PREFIX]`.

    Raises:
        UsageError: there are more words.
    """
    if len(words) > 2:
        raise click.UsageError(f"got {len(words)} words, and takes two: {' '.join(words)}")
    is_team = len(words) == 2 or (bool(words) and _is_team(options, words[0]))
    if is_team:
        options = options.for_scope("team", words[0])
    return options, "".join(words[is_team:])


def _is_team(options: GlobalOptions, word: str) -> bool:
    """Tell whether a word is a team of the store, and no team is named otherwise."""
    if options.session is not None:
        return False
    with open_repo(find(options).url, read_only=True) as repo:
        return repo.store.ref(scope_ref("team", word, "main")) is not None


@team.command("members", cls=TeamCommand)
@team_argument
@json_option
@click.pass_obj
def members(options: GlobalOptions) -> None:
    """List the members, with their roles, and whether each is present."""
    with open_team(options) as found:
        members = found.members()
    _list(
        options, found.id, "members", members,
        rows=member_rows, as_json=member_json, none="No members.",
    )  # fmt: skip


@team.command("leases", cls=TeamCommand)
@team_argument
@json_option
@click.pass_obj
def leases(options: GlobalOptions) -> None:
    """List the leases that members have now."""
    with open_team(options) as found:
        held = found.leases()
    _list(
        options, found.id, "leases", held,
        rows=lease_rows, as_json=lease_json, none="Nobody has a lease.",
    )  # fmt: skip


@team.command("queues", cls=TeamCommand)
@team_argument
@json_option
@click.pass_obj
def queues(options: GlobalOptions) -> None:
    """List the queues, with who uses each and who waits."""
    with open_team(options) as found:
        entries = found.queues()
    _list(
        options, found.id, "queues", entries,
        rows=queue_rows, as_json=queue_json, none="Nobody has asked for a queue.",
    )  # fmt: skip


@team.command("queue", cls=TeamCommand)
@click.argument("name")
@json_option
@click.pass_obj
def queue(options: GlobalOptions, name: str) -> None:
    """Show the slots of a queue, who uses them, and who waits, the next one first."""
    with open_team(options) as found:
        entries = {each.name: each for each in found.queues()}
    if name not in entries:
        hint = f"the queues are: {', '.join(entries)}" if entries else "nobody has asked for one"
        raise terminal_error(KeyNotFound, f"team {found.id} has no queue {name}", hint)
    entry = entries[name]
    output(options, lambda: {"team": found.id, **queue_json(entry)}, queue_lines(entry))


@team.command("sessions", cls=TeamCommand)
@team_argument
@json_option
@click.pass_obj
def sessions(options: GlobalOptions) -> None:
    """List who works on which session."""
    with open_team(options) as found:
        owners = found.sessions()
    _list(
        options, found.id, "sessions", owners,
        rows=owner_rows, as_json=owner_json, none="Nobody works on a session of their own.",
    )  # fmt: skip


# Members


@team.command("add", cls=TeamCommand)
@click.argument("name")
@click.option("--role", metavar="TEXT", help="What the member does, such as reviewer or person.")
@click.pass_obj
def add(options: GlobalOptions, name: str, role: str | None) -> None:
    """Add a member, take one back that was removed, or give one another role.

    To begin a team, or to join one, add yourself: `otolith team add ann --team research --as ann`.
    """
    with open_team(options, acts=True, read_only=False, begins=True) as found:
        known = {each.name for each in found.members()}
        if known and found.member != name:
            check_member(found, found.member)
        role_now = found.add(name, role=role).role
    if not known:
        click.echo(f"Team {escape(found.id)} begins.")
    state = "is a member already" if name in known else "is a member now"
    no_role = "" if role is None else ", without a role"
    click.echo(escape(f"{name} {state}{f', as {role_now}' if role_now else no_role}."))


@team.command("remove", cls=TeamCommand)
@click.argument("name")
@click.pass_obj
def remove(options: GlobalOptions, name: str) -> None:
    """Remove a member: it cannot write any more, and its leases are taken back."""
    with open_team(options, acts=True, read_only=False) as found:
        found.remove(name)
    click.echo(f"{escape(name)} is not a member any more; `otolith team add` takes it back.")


# Proposals


@team.command("proposals", cls=TeamCommand)
@team_argument
@click.option("--all", "everything", is_flag=True, help="Also those that are not open any more.")
@json_option
@click.pass_obj
def proposals(options: GlobalOptions, everything: bool) -> None:
    """List the open proposals, the oldest first."""
    with open_team(options) as found:
        made = found.proposals(status=None if everything else "open")
    _list(
        options, found.id, "proposals", made,
        rows=proposal_rows, as_json=proposal_json,
        none="No proposals." if everything else "No open proposals.",
    )  # fmt: skip


_proposal_argument = click.argument("word", metavar="ID|TITLE")


@team.command("proposal", cls=TeamCommand)
@_proposal_argument
@json_option
@click.pass_obj
def proposal(options: GlobalOptions, word: str) -> None:
    """Show a proposal: who may vote, what they said, and what landing it would change now."""
    with open_team(options) as found:
        _show_proposal(options, found, _proposal(found, word))


def _proposal(found: Team[Versioned], word: str) -> Proposal:
    """Return the proposal with a title, preferably an open one; or with an id that begins so.

    Raises:
        KeyNotFound: there is none, or several.
    """
    titled = [each for each in found.proposals() if each.title == word]
    titled = [each for each in titled if each.status == "open"] or titled
    if len(titled) > 1:
        ids = ", ".join(each.id for each in titled)
        message = f"{len(titled)} proposals are called {word!r}"
        raise terminal_error(KeyNotFound, message, f"name one by its id: {ids}")
    return titled[0] if titled else found.proposal(word)


def _show_proposal(options: GlobalOptions, found: Team[Versioned], made: Proposal) -> None:
    """Print a proposal with its changes: those to come, or those of the commit that landed it."""
    landing = made.landing
    if landing is not None:
        changes = StateDifference.of(found.state.diff(landing.parents[0], landing))
    else:
        changes = StateDifference.of(made.diff() if made.status == "open" else [])
    conflicts = made.conflicts if made.status == "open" else []
    data = {
        "team": found.id,
        **proposal_json(made),
        "landing": None if landing is None else commit_json(landing),
        **changes.to_json(),
        "conflicts": [conflict_json(each) for each in conflicts],
    }
    output(options, lambda: data, proposal_lines(made, changes, conflicts, landing))


def _quorum(_: click.Context, __: click.Parameter, text: str | None) -> float | str | None:
    """Return a quorum as it was typed: a number, a share, or what the room refuses."""
    for kind in (int, float):
        try:
            return None if text is None else kind(text)
        except ValueError:
            continue
    return text


@team.command("propose", cls=TeamCommand)
@click.argument("title")
@click.option("--set", "values", multiple=True, metavar="PATH=VALUE", help="Set a value.")
@click.option("--rm", "removed", multiple=True, metavar="PATH", help="Remove a value.")
@click.option("--branch", "ref", metavar="REF", help="Propose the change of a branch or commit.")
@click.option(
    "--quorum", metavar="N", callback=_quorum,
    help="How many approvals: a number, a share such as 0.5, or all.  [default: more than half]",
)  # fmt: skip
@click.option("--of", "voters", multiple=True, metavar="MEMBER", help="Only these may vote.")
@click.option("--veto", multiple=True, metavar="MEMBER", help="One whose rejection ends it.")
@click.option("--until", metavar="DURATION", help="It expires after this time: 2h, 30m, 7d.")
@json_option
@click.pass_obj
def propose(
    options: GlobalOptions, *, title: str, values: tuple[str, ...], removed: tuple[str, ...],
    ref: str | None, quorum: float | str | None, voters: tuple[str, ...],
    veto: tuple[str, ...], until: str | None,
) -> None:  # fmt: skip
    """Propose a change, which lands when enough members approve. Nothing changes before.

    A VALUE is read as by `otolith set`. Each of --set, --rm, --of and --veto may be repeated.
    """
    edits = dict(map(_path_and_value, values))
    if ref is not None and (edits or removed):
        raise click.UsageError("--branch has its own change\nomit --set and --rm, or --branch")
    if ref is None and not (edits or removed):
        raise click.UsageError("say what would change: --set PATH=VALUE and --rm PATH, or --branch")

    def edit(state: Branch) -> None:
        """Make the change on the state that it is made for."""
        for path, value in edits.items():
            state[path] = value
        for path in removed:
            del state[path]

    with open_team(options, acts=True, read_only=False) as found, _terminal_hints(found.id):
        change = edit if ref is None else _commit(found, ref)
        made = found.propose(
            title, change, quorum=quorum, of=voters or None, veto=veto, until=until
        )
        _show_proposal(options, found, made)


def _path_and_value(text: str) -> tuple[str, object]:
    """Return the path and the value of `PATH=VALUE`.

    Raises:
        UsageError: there is no `=`.
    """
    path, separator, value = text.partition("=")
    if not separator:
        raise click.UsageError(f"--set {text!r} has no value\nwrite --set PATH=VALUE")
    return path, parse_value(value)


def _commit(found: Team[Versioned], ref: str) -> Commit:
    """Return the commit that a REF names.

    Raises:
        RefNotFound: there is none; the hint suggests the nearest branch of the team.
    """
    try:
        return found.state.resolve(ref)
    except RefNotFound as error:
        known = list(found.state.repo.branches(found.id, scope="team"))
        listed = f"`{shlex.join(['otolith', '--team', found.id, 'branch'])}` lists them"
        raise ref_not_found(error.message, ref, known, listed) from None


@contextmanager
def _terminal_hints(id: str) -> Iterator[None]:
    """Give errors about proposals hints of their own: others of their kinds are about sessions."""
    try:
        yield
    except MergeConflict as error:
        raise with_terminal_hint(error) from None
    except IllegalTransition as error:
        error.hint = "`otolith team proposals` lists those that are open"
        raise with_terminal_hint(error) from None
    except KeyNotFound as error:
        if not error.message.startswith("nothing at "):
            raise
        error.hint = f"`{shlex.join(['otolith', '--team', id, 'ls'])}` lists the names"
        raise with_terminal_hint(error) from None


_why = click.option("--why", default="", metavar="TEXT", help="The reason, for the others.")
_effect = click.option(
    "--effect", metavar="DIGITS",
    help="Refuse if it would change something else than `proposal ID` has shown.",
)  # fmt: skip


@team.command("approve", cls=TeamCommand)
@_proposal_argument
@_why
@_effect
@json_option
@click.pass_obj
def approve(options: GlobalOptions, *, word: str, why: str, effect: str | None) -> None:
    """Vote for a proposal. It lands with the last approval that it needs."""
    _vote(options, word, effect, lambda made: made.approve(why=why))


@team.command("reject", cls=TeamCommand)
@_proposal_argument
@_why
@_effect
@json_option
@click.pass_obj
def reject(options: GlobalOptions, *, word: str, why: str, effect: str | None) -> None:
    """Vote against a proposal. A later vote of yours takes the place of an earlier one."""
    _vote(options, word, effect, lambda made: made.reject(why=why))


@team.command("withdraw", cls=TeamCommand)
@_proposal_argument
@_why
@json_option
@click.pass_obj
def withdraw(options: GlobalOptions, *, word: str, why: str) -> None:
    """Take a proposal of your own back."""
    _vote(options, word, None, lambda made: made.withdraw(why=why))


def _vote(
    options: GlobalOptions, word: str, effect: str | None, vote: Callable[[Proposal], Proposal]
) -> None:
    """Change a proposal, and print what became of it.

    Raises:
        Conflict: its effect is not the one that was named.
        UsageError: the one that was named is empty, which would fit any.
    """
    if effect == "":
        raise click.UsageError("--effect is empty\nname the one that `proposal ID` has shown")
    with open_team(options, acts=True, read_only=False) as found, _terminal_hints(found.id):
        made = _proposal(found, word)
        if not made.effect.startswith(effect or ""):
            hint = f"look at it again: `otolith team proposal {made.id}`"
            raise terminal_error(Conflict, f"proposal {made.id} has another effect now", hint)
        _show_proposal(options, found, vote(made))


# Conflicts


@team.command("merge", cls=TeamCommand)
@click.argument("ref")
@click.option("-m", "--message", metavar="TEXT", help="The message of the merge.")
@json_option
@click.pass_obj
def merge(options: GlobalOptions, ref: str, message: str | None) -> None:
    """Merge a branch into the team's state. Conflicts go to the inbox, and hold nobody up.

    REF is a branch of the team, or any commit, such as `remote/origin/team/ID/main` after a fetch.
    """
    with open_team(options, acts=True, read_only=False) as found:
        before, theirs = found.state.head, _commit(found, ref)
        conflicts = found.merge(theirs, message or f"merge {ref}")
        state, head = found.state, found.state.head
        assert head is not None
        data = {
            "team": found.id,
            "commit": commit_json(head),
            "conflicts": [inbox_json(each, state) for each in conflicts],
        }
        lines = [f"Already merged; the team is at {oneline(head)}"]
        if before is None or head.id != before.id:
            lines = [f"Merged: {oneline(head)}"]
        if conflicts:
            lines += [f"{plural(len(conflicts), 'conflict')} for the inbox:"]
            lines += [*inbox_lines(conflicts, state), _HOW_TO_RESOLVE]
        output(options, lambda: data, lines)


_HOW_TO_RESOLVE = (
    "`otolith team resolve ID --take ours|theirs|base` decides one, --value VALUE for a value."
)


@team.command("inbox", cls=TeamCommand)
@team_argument
@json_option
@click.pass_obj
def inbox(options: GlobalOptions) -> None:
    """List the conflicts to decide, with both sides, who changed them, and when."""
    with open_team(options) as found:
        conflicts, state = list(found.inbox), found.state
        lines = (
            [*inbox_lines(conflicts, state), _HOW_TO_RESOLVE] if conflicts else ["No conflicts."]
        )
        data = {"team": found.id, "inbox": [inbox_json(each, state) for each in conflicts]}
        output(options, lambda: data, lines)


@team.command("resolve", cls=TeamCommand)
@click.argument("conflict", metavar="ID|PATH")
@click.option("--take", type=click.Choice(["ours", "theirs", "base"]), help="The side that holds.")
@click.option("--value", metavar="VALUE", help="A value that holds, read as by `otolith set`.")
@click.pass_obj
def resolve(options: GlobalOptions, *, conflict: str, take: str | None, value: str | None) -> None:
    """Decide a conflict of the inbox, for a side or for a value."""
    if (take is None) == (value is None):
        raise click.UsageError(
            "decide for a side or for a value\ngive --take SIDE or --value VALUE"
        )
    with open_team(options, acts=True, read_only=False) as found:
        entry, side = (
            found.inbox[conflict],
            {"value": parse_value(value)} if value is not None else {},
        )
        found.resolve(entry, take=take, **side)
        left = len(found.inbox)
    rest = f"{plural(left, 'conflict')} left: `otolith team inbox`" if left else "none is left"
    click.echo(f"{escape(entry.path)} is decided; {rest}.")


# Messages and sessions


@team.command("send", cls=TeamCommand)
@click.argument("member")
@click.argument("body")
@click.pass_obj
def send(options: GlobalOptions, member: str, body: str) -> None:
    """Send a message to a member, or to all others: '*'. BODY is read as by `otolith set`."""
    with open_team(options, acts=True, read_only=False) as found:
        found.send(member, parse_value(body))


@team.command("messages", cls=TeamCommand)
@team_argument
@click.option("--keep", is_flag=True, help="Leave them unread.")
@json_option
@click.pass_obj
def messages(options: GlobalOptions, keep: bool) -> None:
    """Show the messages that the member has not read, which it has then."""
    with open_team(options, acts=True, read_only=keep) as found:
        unread = found.messages(mark=not keep)
    _list(
        options, found.id, "messages", unread,
        rows=message_rows, as_json=message_json, none="No new messages.",
    )  # fmt: skip


@team.command("handoff", cls=TeamCommand)
@click.argument("session")
@click.option("--to", "receiver", required=True, metavar="MEMBER", help="Who goes on with it.")
@click.option("--note", metavar="TEXT", help="What the receiver should know.")
@click.pass_obj
def handoff(options: GlobalOptions, *, session: str, receiver: str, note: str | None) -> None:
    """Give a session to another member in the middle of a job, with its staged edits.

    From then on commits of the giver, as the one who works on it, are refused.
    """
    with open_team(options, acts=True, read_only=False) as found:
        staged = _check_session(found, session)
        found.handoff(session, to=receiver, note=note)
    along = "; its staged edits come along" if staged else ""
    click.echo(escape(f"{receiver} works on session {session} now{along}."))


def _check_session(found: Team[Versioned], id: str) -> bool:
    """Refuse a session that does not exist; return whether edits are staged for it.

    Raises:
        RefNotFound: nobody has committed, staged or taken it.
    """
    repo = found.state.repo
    staged = repo.store.refs(stage_ref(scope_ref("session", id, "x"))[:-1])
    known = {each.id for each in repo.sessions()} | {each.session for each in found.sessions()}
    if not staged and id not in known:
        raise ref_not_found(
            f"there is no session {id}", id, sorted(known), "`otolith sessions` lists them"
        )
    return bool(staged)
