"""`profile`: what is known about a user, on what basis, and what the user agrees to.

All commands work on one user: the first word, or `--user` before the command or after it. Those
that only look, and take no other word, need none in a store with one user. They show what is
committed. A change is committed at once, beside what is staged, which stays staged. Messages of
commits name the key and not the value, so that what is forgotten is in the evidence only.

JSON: an object with `user`, and by command; `format/profiles.py` describes the objects.

    show            head, preferences, settings, purposes (those decided about), contradictions (a
                    count); with a KEY: preference, with commits
    why             preference, count, evidence (the newest first)
    history         changes; with a KEY: key, evidence; the oldest first
    learn           session, thread, learned, …, commit
    export          file, evidence (a count); the export itself if it goes to standard output
    import          added, commit
    consent         purposes; with a PURPOSE: purpose, and commit if it was changed
    retain          purpose, commit
    settings, contradictions            a list under that name
    prompt, erase                       the prompt, the receipt
    set, unset, observe                 preference, commit
    forget          key, commit
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from otolith.cli.address import time_or_commit
from otolith.cli.commands.profile_control import CONTROLS
from otolith.cli.errors import terminal_error
from otolith.cli.format.history import commit_json, oneline, plural
from otolith.cli.format.profiles import (
    change_json,
    change_rows,
    consent_lines,
    contradiction_json,
    evidence_json,
    evidence_rows,
    explained_json,
    headed_table,
    learned_json,
    learned_lines,
    preference_json,
    preference_line,
    preference_rows,
    prompt_json,
    purpose_json,
    setting_json,
    setting_rows,
)
from otolith.cli.format.values import parse_value
from otolith.cli.location import (
    OpenBranch,
    command_line,
    ref_not_found,
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
    escape,
    output,
    table,
)
from otolith.cli.user_profile import OpenProfile, open_profile, place_of
from otolith.conversation import Conversation
from otolith.durations import duration_microseconds
from otolith.errors import KeyNotFound
from otolith.profiles import EvidenceLine, Preference, Profile, Purpose

_MOST_EVIDENCE = 20


@click.group("profile")
def profile() -> None:
    """See, explain and change what is known about a user.

    The first word names the user, unless `otolith --user ID profile …` does.
    """


_context = click.option(
    "--context", default="", metavar="TEXT", help='When it holds, such as "business trips".'
)
_purpose = click.option(
    "--purpose", default="learning", show_default=True, metavar="NAME",
    help="Only by evidence for this purpose.",
)  # fmt: skip
_value_type = click.option(
    "--type", "kind", type=click.Choice(["auto", "json", "str"]), default="auto",
    show_default=True, help="auto: JSON if it is valid JSON, else text.",
)  # fmt: skip
_source = click.option(
    "--source", default="", metavar="TEXT",
    help="Where it is known from; the same from the same source counts once.",
)  # fmt: skip
_VALUES: dict[str, Any] = {"ignore_unknown_options": True}  # -5 is a value


# Looking


@profile.command("show", cls=UserCommand)
@optional_user_argument
@click.argument("key", required=False)
@_context
@_purpose
@at_option
@json_option
@click.pass_obj
def show(options: GlobalOptions, *, key: str | None, context: str, purpose: str, ref: str) -> None:
    """Show what holds for each key, the settings and what the user agrees to; or one KEY.

    With --context, what holds then.
    """
    with open_profile(options, ref) as opened:
        if key is not None:
            if key not in opened.profile.settings:
                opened.check_key(key)
            found = opened.profile.prefer(key, context=context, purpose=purpose)
            data = preference_json(found) | {"commits": found.evidence}
            shown = {"user": opened.user, "preference": data}
            output(options, lambda: shown, [preference_line(found)])
            return
        held = _held(opened.profile, context, purpose)
        output(options, lambda: _page_json(opened, held), _page_lines(opened, held))


def _held(profile: Profile, context: str, purpose: str) -> list[Preference]:
    """Return all that holds, in a context if one is named."""
    if not context:
        return profile.preferences(purpose=purpose)
    found = [
        profile.prefer(key, context=context, purpose=purpose)
        for key in profile.keys()  # noqa: SIM118 - a profile is no dict
    ]
    return [each for each in found if each.basis != "default"]


def _page_json(opened: OpenProfile, held: list[Preference]) -> dict[str, Any]:
    found, head = opened.profile, opened.current.branch.head
    decided = [each for each in found.purposes.values() if _is_decided(each)]
    return {
        "user": opened.user,
        "head": None if head is None else commit_json(head),
        "preferences": [preference_json(each) for each in held],
        "settings": [setting_json(found.settings.describe(name)) for name in found.settings],
        "purposes": [purpose_json(each) for each in decided],
        "contradictions": len(found.contradictions()),
    }


def _is_decided(purpose: Purpose) -> bool:
    return purpose.consent is not None or purpose.retention_seconds is not None


def _page_lines(opened: OpenProfile, held: list[Preference]) -> Iterator[str]:
    """Yield the page of a profile; what it has none of is left out."""
    found, head = opened.profile, opened.current.branch.head
    name = click.style(escape(opened.user), bold=True)
    yield f"Profile of {name}: {plural(len(held), 'preference')}"
    if head is not None:
        yield f"Head {oneline(head)}"
    if held:
        yield from ["", *headed_table(preference_rows(held))]
    settings = [found.settings.describe(name) for name in found.settings]
    if settings:
        yield from ["", *headed_table(setting_rows(settings))]
    if consents := list(consent_lines(found.purposes)):
        yield from ["", *consents]
    if doubts := len(found.contradictions()):
        ask = command_line(GlobalOptions(), "profile", "contradictions", opened.user)
        yield from ["", f"{plural(doubts, 'question')} to ask: `{ask}`"]


@profile.command("why", cls=UserCommand)
@user_argument
@click.argument("key")
@click.option("--all", "everything", is_flag=True, help="All evidence, not only the newest 20.")
@_context
@at_option
@json_option
@click.pass_obj
def why(options: GlobalOptions, *, key: str, everything: bool, context: str, ref: str) -> None:
    """Show the evidence behind what holds for KEY, the newest first, each with its commit."""
    with open_profile(options, ref) as opened:
        opened.check_key(key)
        found = opened.profile.why(key, context=context)
        newest = found.lines[::-1] if everything else found.lines[: -_MOST_EVIDENCE - 1 : -1]
        lines = [preference_line(found.preference)]
        lines += [f"  {line}" for line in table(list(evidence_rows(newest)))]
        older = len(found.lines) - len(newest)
        lines += [f"  … {older:,} older: --all lists them"] if older else []
        data = {
            "user": opened.user,
            "preference": preference_json(found.preference),
            "count": len(found.lines),
            "evidence": [explained_json(each) for each in newest],
        }
        output(options, lambda: data, lines)


@profile.command("history", cls=UserCommand)
@optional_user_argument
@click.argument("key", required=False)
@click.option(
    "--since", metavar="WHEN", help="Since so long ago (30d), a time (ISO 8601), or a commit."
)
@json_option
@click.pass_obj
def history(options: GlobalOptions, *, key: str | None, since: str | None) -> None:
    """Show what changed, the oldest first; or with KEY all that was said, chosen and set."""
    with open_profile(options) as opened:
        start = -1 if since is None else _start(opened.current, since)
        if key is None:
            changes = [each for each in opened.profile.changes() if each.time >= start]
            data = {"user": opened.user, "changes": [change_json(each) for each in changes]}
            lines = table(list(change_rows(changes))) or ["Nothing has changed."]
        else:
            opened.check_key(key)
            found = [each for each in opened.profile.history(key) if each.time >= start]
            evidence = [evidence_json(each) for each in found]
            data = {"user": opened.user, "key": key, "evidence": evidence}
            rows = evidence_rows(EvidenceLine(each, "", counts=True) for each in found)
            lines = table(list(rows)) or ["Nothing was added."]
        output(options, lambda: data, lines)


def _start(current: OpenBranch, text: str) -> int:
    """Return the time that `--since` means, in microseconds since 1970."""
    ago = duration_microseconds(text) if not text.isdigit() else None
    if ago is not None:
        return current.repo.clock() - ago
    found = time_or_commit(text)
    if isinstance(found, str | None):
        return current.commit(text).time + 1
    return int(found.timestamp() * 1_000_000)


@profile.command("settings", cls=UserCommand)
@optional_user_argument
@json_option
@click.pass_obj
def settings(options: GlobalOptions) -> None:
    """List the settings that applications have declared, with what holds for the user."""
    with open_profile(options) as opened:
        declared = opened.profile.settings
        found = [declared.describe(name) for name in declared]
        lines = headed_table(setting_rows(found)) if found else ["No setting was declared."]
        data = {"user": opened.user, "settings": [setting_json(each) for each in found]}
        output(options, lambda: data, lines)


@profile.command("contradictions", cls=UserCommand)
@optional_user_argument
@json_option
@click.pass_obj
def contradictions(options: GlobalOptions) -> None:
    """List what to ask the user: evidence against what was set, statements that differ."""
    with open_profile(options) as opened:
        found = opened.profile.contradictions()
        lines = [escape(each.question) for each in found] or ["Nothing contradicts itself."]
        data = {"user": opened.user, "contradictions": [contradiction_json(each) for each in found]}
        output(options, lambda: data, lines)


@profile.command("prompt", cls=UserCommand)
@optional_user_argument
@click.option("--budget", default=300, show_default=True, metavar="N", help="At most N tokens.")
@click.option("--about", default="", metavar="TEXT", help="What fits this question comes first.")
@_purpose
@at_option
@json_option
@click.pass_obj
def prompt(options: GlobalOptions, *, budget: int, about: str, purpose: str, ref: str) -> None:
    """Print what a model is told about the user, within a budget of tokens."""
    with open_profile(options, ref) as opened:
        found = opened.profile.prompt(budget, about=about, purpose=purpose)
    output(options, lambda: {"user": opened.user, **prompt_json(found)}, found.text.splitlines())
    if found.left_out and not options.as_json:
        count = plural(len(found.left_out), "preference")
        click.echo(f"{count} did not fit into {budget:,} tokens.", err=True)


# What is set, chosen and liked


@profile.command("set", cls=UserCommand, context_settings=_VALUES)
@user_argument
@click.argument("key")
@click.argument("value")
@_context
@_value_type
@_source
@json_option
@click.pass_obj
def set_value(
    options: GlobalOptions, *, key: str, value: str, context: str, kind: str, source: str
) -> None:
    """Set what the user wants: it holds until it is unset, whatever is observed.

    VALUE is read as by `otolith set`; that of a declared setting as the setting says.
    """
    with open_profile(options, read_only=False, begins=True) as opened:
        parsed = _parsed(opened.profile, key, value, kind)
        opened.profile.set(key, parsed, context=context, source=source)
        _report(options, opened, f"set {key}", key, context)


def _parsed(profile: Profile, key: str, text: str, kind: str) -> object:
    """Return the value that a user typed, in the type of a declared setting if there is one."""
    parsed = parse_value(text, kind)
    if kind != "auto" or text == "-" or key not in profile.settings:
        return parsed
    setting = profile.settings.describe(key)
    readings = [parsed, text, *({"yes": [True], "no": [False]}.get(text, []))]
    return next((each for each in readings if not setting.refusal(each)), parsed)


def _report(
    options: GlobalOptions, opened: OpenProfile, message: str, key: str, context: str
) -> None:
    """Commit a change of a key, and print what holds then."""
    made = opened.commit(message)
    found = opened.profile.prefer(key, context=context)
    data = {
        "user": opened.user,
        "preference": preference_json(found),
        "commit": made and commit_json(made),
    }
    output(options, lambda: data, [preference_line(found) + place_of(made)])


@profile.command("unset", cls=UserCommand)
@user_argument
@click.argument("key")
@_context
@json_option
@click.pass_obj
def unset(options: GlobalOptions, *, key: str, context: str) -> None:
    """Take back what was set; what is learned holds again."""
    with open_profile(options, read_only=False) as opened:
        opened.check_key(key)
        opened.profile.unset(key, context=context)
        _report(options, opened, f"unset {key}", key, context)


@profile.command("observe", cls=UserCommand, context_settings=_VALUES)
@user_argument
@click.argument("key")
@click.argument("value")
@click.option("--liked/--disliked", default=None, help="The user said so, instead of choosing it.")
@click.option("--weight", type=float, metavar="N", help="How much it counts.  [default: 1]")
@click.option("--purpose", default="learning", show_default=True, metavar="NAME", help="For what.")
@_context
@_value_type
@_source
@json_option
@click.pass_obj
def observe(
    options: GlobalOptions, *, key: str, value: str, liked: bool | None, weight: float | None,
    purpose: str, context: str, kind: str, source: str,
) -> None:  # fmt: skip
    """Add evidence that the user prefers VALUE: it was chosen, liked or disliked.

    What was set stays. A liking counts 2.
    """
    given: dict[str, Any] = {} if weight is None else {"weight": weight}
    given |= {"source": source, "purpose": purpose, "context": context}
    with open_profile(options, read_only=False, begins=True) as opened:
        parsed = _parsed(opened.profile, key, value, kind)
        if liked is None:
            opened.profile.observe(key, parsed, **given)
        else:
            opened.profile.feedback(key, parsed, liked=liked, **given)
        _report(options, opened, f"observe {key}", key, context)


@profile.command("learn", cls=UserCommand)
@user_argument
@click.argument("session")
@click.option("--thread", default="main", show_default=True, metavar="NAME", help="Which thread.")
@json_option
@click.pass_obj
def learn(options: GlobalOptions, *, session: str, thread: str) -> None:
    """Add what the user says of themselves in the conversation of SESSION, in English.

    Each message is read once.
    """
    with open_profile(options, read_only=False, begins=True) as opened:
        found = opened.profile.learn(_conversation(opened, session, thread))
        made = opened.commit(f"learn from {session}")
        names: dict[str, Any] = {"user": opened.user, "session": session, "thread": thread}
        data = names | learned_json(found) | {"commit": made and commit_json(made)}
        output(options, lambda: data, learned_lines(found))


def _conversation(opened: OpenProfile, session: str, thread: str) -> Conversation:
    """Return the conversation of a session, on its branch main.

    Raises:
        RefNotFound: there is no such session; the hint suggests the nearest.
        KeyNotFound: it has no such thread.
    """
    repo = opened.current.repo
    known = [each.id for each in repo.sessions()]
    if session not in known:
        message, listed = f"there is no session {session}", "`otolith sessions` lists them"
        raise ref_not_found(message, session, known, listed)
    found = Conversation(repo.session(session), thread=thread)
    if thread not in found.threads():
        hint = f"`otolith -s {session} chat threads` lists them"
        raise terminal_error(KeyNotFound, f"session {session} has no thread {thread!r}", hint)
    return found


for command in CONTROLS:
    profile.add_command(command)
