"""`profile consent`, `retain`, `export`, `import`, `forget`, `erase`: what a user controls.

`profile.py` has the group, and says what the commands print. `erase` opens no state: it also
finishes an erasure that was cut off, when there is none to open.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from difflib import get_close_matches
from typing import Any

import click

from otolith import care
from otolith.cli.format.history import commit_json, plural
from otolith.cli.format.profiles import (
    headed_table,
    purpose_json,
    purpose_line,
    purpose_rows,
    receipt_json,
    receipt_lines,
)
from otolith.cli.format.values import parse_value
from otolith.cli.location import (
    find,
    open_current,
    open_repo,
)
from otolith.cli.options import (
    GlobalOptions,
    UserCommand,
    at_option,
    json_option,
    optional_user_argument,
    user_argument,
)
from otolith.cli.terminal import (
    dumps,
    emit,
    end_progress,
    escape,
    output,
    progress_line,
)
from otolith.cli.user_profile import OpenProfile, open_profile, place_of, with_user
from otolith.errors import BadValue, Erased
from otolith.profiles import Purpose


@click.command("consent", cls=UserCommand)
@optional_user_argument
@click.argument("purpose", required=False)
@click.argument("answer", required=False, type=click.Choice(["yes", "no"]), metavar="[yes|no]")
@json_option
@click.pass_obj
def consent(options: GlobalOptions, *, purpose: str | None, answer: str | None) -> None:
    """Record whether the user agrees to a PURPOSE; without an answer, show what was said.

    Without consent for it, evidence is neither stored nor used. Nobody has agreed to sensitive
    subjects, such as health, before they say so.
    """
    changes = answer is not None
    with open_profile(options, read_only=not changes, begins=changes) as opened:
        known = opened.profile.purposes
        if purpose is None:
            data: dict[str, Any] = {
                "user": opened.user,
                "purposes": [*map(purpose_json, known.values())],
            }
            output(options, lambda: data, headed_table(purpose_rows(known.values())))
            return
        if answer is None:
            found = known.get(purpose) or Purpose(purpose)
            data = {"user": opened.user, "purpose": purpose_json(found)}
            output(options, lambda: data, [purpose_line(opened.user, found)])
            return
        near = get_close_matches(purpose, known, n=1) if purpose not in known else []
        opened.profile.consent(purpose, answer == "yes")
        _report_purpose(options, opened, f"consent to {purpose}: {answer}", purpose)
        if near:
            told = f"{purpose} is new; did you mean {near[0]}?"
            click.echo(f"{click.style('warning:', fg='yellow')} {escape(told)}", err=True)


@click.command("retain", cls=UserCommand)
@user_argument
@click.argument("purpose")
@click.argument("time")
@click.option("--about", metavar="TEXT", help="What the purpose is.")
@json_option
@click.pass_obj
def retain(options: GlobalOptions, *, purpose: str, time: str, about: str | None) -> None:
    """Use evidence for a PURPOSE so long: 365d, 12h, or forever.

    Older evidence is not used any more, and removed when more is added.
    """
    with open_profile(options, read_only=False, begins=True) as opened:
        opened.profile.retain(purpose, None if time == "forever" else time, about=about)
        _report_purpose(options, opened, f"retain {purpose}: {time}", purpose)


def _report_purpose(
    options: GlobalOptions, opened: OpenProfile, message: str, purpose: str
) -> None:
    """Commit a change of a purpose, and print it."""
    made, found = opened.commit(message), opened.profile.purposes[purpose]
    data = {
        "user": opened.user,
        "purpose": purpose_json(found),
        "commit": made and commit_json(made),
    }
    output(options, lambda: data, [purpose_line(opened.user, found)])


@click.command("export", cls=UserCommand)
@user_argument
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@at_option
@json_option
@click.pass_obj
def export(options: GlobalOptions, *, file: str, ref: str) -> None:
    """Write all that is known about the user to FILE, as JSON; `-` is standard output."""
    with open_profile(options, ref) as opened:
        data = opened.profile.export()
    if file == "-":
        emit(data)
        return
    (options.directory / file).write_text(dumps(data) + "\n", encoding="utf-8")
    count = sum(map(len, data["evidence"].values()))
    told = {"user": opened.user, "file": file, "evidence": count}
    output(options, lambda: told, [f"Wrote {escape(file)}: {_pieces(count)} of evidence."])


def _pieces(count: int) -> str:
    return plural(count, "piece")


@click.command("import", cls=UserCommand)
@user_argument
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@json_option
@click.pass_obj
def load(options: GlobalOptions, *, file: str) -> None:
    """Add what `export` wrote; what is known already counts once. `-` is standard input.

    A consent that the user has not given here is not given by a file.
    """
    source = _read_json() if file == "-" else str(options.directory / file)
    with open_profile(options, read_only=False, begins=True) as opened:
        count = opened.profile.load(source)
        made = opened.commit(f"import {_pieces(count)} of evidence")
        data = {"user": opened.user, "added": count, "commit": made and commit_json(made)}
        line = f"{_pieces(count)} of evidence {'is' if count == 1 else 'are'} new"
        output(options, lambda: data, [line + place_of(made)])


def _read_json() -> object:
    """Return the JSON object on standard input.

    Raises:
        BadValue: there is something else.
    """
    found = parse_value("-", "json")
    if not isinstance(found, dict):
        raise BadValue("this is not an export of a profile", hint="`otolith profile export` writes")
    return found


@click.command("forget", cls=UserCommand)
@user_argument
@click.argument("key")
@json_option
@click.pass_obj
def forget(options: GlobalOptions, *, key: str) -> None:
    """Drop all that is known of KEY; the history of the user still has it.

    What is read again from older messages is not learned again.
    """
    with open_profile(options, read_only=False) as opened:
        opened.check_key(key)
        opened.profile.forget(key)
        made = opened.commit("forget a key")
        data = {"user": opened.user, "key": key, "commit": made and commit_json(made)}
        output(options, lambda: data, [f"Nothing is known of {escape(key)}{place_of(made)}"])


@click.command("erase", cls=UserCommand)
@user_argument
@click.option(
    "--sessions", type=click.Choice(["delete", "keep"]),
    help="What becomes of the sessions that are linked to the user.",
)  # fmt: skip
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask for the name to be typed.")
@json_option
@click.pass_obj
def erase(options: GlobalOptions, *, sessions: str | None, is_sure: bool) -> None:
    """Erase all of a user for good: every branch, and the history; and rebuild the store.

    The user cannot be opened any more: that ends with the exit code 9. The rebuild also drops what
    was deleted and undone, of all sessions. Other stores, backups and exported files are not
    reached.
    """
    if options.branch is not None:
        raise click.UsageError("all branches of a user are erased\nomit --branch")
    options = with_user(options)
    user = str(options.session)
    with suppress(Erased), open_current(options, read_only=True):
        pass  # there is such a user; an erasure that was cut off is finished
    if not is_sure:
        _confirm(user)
    with open_repo(find(options).url) as repo:
        found = care.erase(repo, user, sessions=sessions, progress=progress_line())  # type: ignore[arg-type]
    end_progress()
    output(options, lambda: {"user": user, **receipt_json(found)}, receipt_lines(user, found))


def _confirm(user: str) -> None:
    """Ask for the name of a user to be typed.

    Raises:
        UsageError: something else was typed.
    """
    ends = not sys.stdin.isatty()  # nobody ends the line by typing
    click.echo(f"Type {escape(user)} to erase all of this user: ", err=True, nl=ends)
    if sys.stdin.readline().rstrip("\r\n") != user:
        raise click.UsageError("the name was not typed: nothing is erased\ntype it, or use --yes")


CONTROLS: tuple[click.Command, ...] = (consent, retain, export, load, forget, erase)
"""The commands of this file, for the group."""
