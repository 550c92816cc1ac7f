"""Options that several commands share, and where on the command line a session is named.

Global options stand before the command (`otolith -s trip log`). The program stores them in
`ctx.obj`, where commands find them by `@click.pass_obj`. `--json`, and the session and branch that
a command is given, are written into the same object. So a command that declares them has no
parameter for them, and a function that gets the options knows all of them.

A command on a session is a `SessionCommand`: session and branch may stand before it or after it
(`otolith log -s trip`). Some take the session as their first word as well (`otolith vars trip`). A
session that is named twice must be the same. A `TeamCommand` takes a team in the same places, and
the member that acts. A `UserCommand` works on a user: its first word, unless `--user` names one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
from click.core import ParameterSource

MEMBER_HELP = "The member of the team that acts.  [default: $OTOLITH_MEMBER]"


class GlobalOptions(NamedTuple):
    """The store, session, branch and directory to work on, and the form of the output."""

    store: str | None = None
    session: str | None = None
    branch: str | None = None
    directory: Path = Path()
    is_paged: bool = True
    as_json: bool = False
    scope: str = "session"
    """Whose state it is: that of a session, or of a "user", "app" or "team" called `session`."""
    member: str | None = None
    """The member of a team that acts, if the command line names it."""

    def for_scope(self, scope: str, id: str | None) -> GlobalOptions:
        """Return these options for the state of a user, an application or a team, if one is named.

        Raises:
            UsageError: a session, or another of them, is named as well.
        """
        if id is None or (scope, id) == (self.scope, self.session):
            return self
        if self.session is not None:
            first, second = f"{self.scope} {self.session}", f"{scope} {id}"
            raise click.UsageError(f"{first} and {second} are both named\nname one")
        return self._replace(session=id, scope=scope)

    def require_session(self) -> None:
        """Refuse the state of a user, an application or a team, in which no code runs.

        Raises:
            UsageError: it is that of one.
        """
        if self.scope != "session":
            raise click.UsageError(
                f"this works on sessions, not on a {self.scope}\nname one: -s ID"
            )

    def for_session(self, session: str | None) -> GlobalOptions:
        """Return these options with a session that the command line names once more, if it does.

        Raises:
            UsageError: it was named before, and was another.
        """
        if session is None or session == self.session:
            return self
        if self.session is not None:
            raise _named_twice("session", self.session, session)
        return self._replace(session=session)

    def for_branch(self, branch: str | None) -> GlobalOptions:
        """Return these options with a branch that the command line names once more, if it does.

        Raises:
            UsageError: it was named before, and was another.
        """
        if branch is None or branch == self.branch:
            return self
        if self.branch is not None:
            raise _named_twice("branch", self.branch, branch)
        return self._replace(branch=branch)

    def for_member(self, member: str | None) -> GlobalOptions:
        """Return these options with a member that the command line names once more, if it does.

        Raises:
            UsageError: it was named before, and was another.
        """
        if member is None or member == self.member:
            return self
        if self.member is not None:
            raise _named_twice("member", self.member, member)
        return self._replace(member=member)


def _named_twice(what: str, first: str, second: str) -> click.UsageError:
    return click.UsageError(f"the {what} is named twice: {first} and {second}\nname one")


def _use_session(ctx: click.Context, _: click.Parameter, session: str | None) -> None:
    """Remember the session that a command was given."""
    ctx.obj = ctx.obj.for_session(session)


def _use_branch(ctx: click.Context, _: click.Parameter, branch: str | None) -> None:
    """Remember the branch that a command was given."""
    ctx.obj = ctx.obj.for_branch(branch)


def _use_team(ctx: click.Context, _: click.Parameter, team: str | None) -> None:
    """Remember the team that a command was given."""
    ctx.obj = ctx.obj.for_scope("team", team)


def _use_user(ctx: click.Context, _: click.Parameter, user: str | None) -> None:
    """Remember the user that a command was given."""
    ctx.obj = ctx.obj.for_scope("user", user)


def _use_member(ctx: click.Context, _: click.Parameter, member: str | None) -> None:
    """Remember the member that a command was given."""
    ctx.obj = ctx.obj.for_member(member)


def _use_json(ctx: click.Context, _: click.Parameter, as_json: bool) -> None:
    """Remember that the output is for a program."""
    ctx.obj = ctx.obj._replace(as_json=as_json)


json_option = click.option(
    "--json", is_flag=True, expose_value=False, callback=_use_json,
    help="One JSON object, for programs.",
)  # fmt: skip
json_lines_option = click.option(
    "--json", is_flag=True, expose_value=False, callback=_use_json,
    help="One JSON object a line, for programs.",
)  # fmt: skip
session_argument = click.argument(
    "session", required=False, expose_value=False, callback=_use_session
)
team_argument = click.argument("team", required=False, expose_value=False, callback=_use_team)
user_argument = click.argument("user", expose_value=False, callback=_use_user)
optional_user_argument = click.argument(
    "user", required=False, expose_value=False, callback=_use_user
)
at_option = click.option("--at", "ref", default="@", metavar="REF", help="As of this commit.")


def session_and_word(
    options: GlobalOptions, words: Sequence[str], *, is_last_needed: bool = False
) -> tuple[GlobalOptions, str | None]:
    """Return the options with the session, and the other word, of `[SESSION] [WORD]`.

    A single word is the session, unless the other word is needed.
    """
    if len(words) == 1 and is_last_needed:
        return options, words[0]
    if len(words) > 2:
        raise click.UsageError(f"got {len(words)} words, and takes two: {' '.join(words)}")
    session, word = [*words, None, None][:2]
    return options.for_session(session), word


class SessionCommand(click.Command):
    """A command on a session, which takes `-s` and `-b` after its name too."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        # Where a value may begin with a hyphen, `-sad` is a value.
        is_short = not self.context_settings.get("ignore_unknown_options")
        for short, name, metavar, use in (
            ("-s", "session", "ID", _use_session),
            ("-b", "branch", "NAME", _use_branch),
        ):
            names = [short, f"--{name}"] if is_short else [f"--{name}"]
            self.params.append(
                click.Option(
                    [*names, f"named_{name}"],
                    metavar=metavar,
                    expose_value=False,
                    callback=use,
                    help=f"Use this {name} instead of the current one.",
                )
            )


class TeamCommand(click.Command):
    """A command on a team, which takes `--team` and `--as` after its name too."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        for option, name, metavar, use, text in (
            ("--team", "named_team", "ID", _use_team, "Use this team; one alone needs no name."),
            ("--as", "named_member", "MEMBER", _use_member, MEMBER_HELP),
        ):
            self.params.append(
                click.Option(
                    [option, name], metavar=metavar, expose_value=False, callback=use, help=text
                )
            )


_IS_NAMED = f"{__name__}.user_is_named"


class UserCommand(click.Command):
    """A command on a user: its first word names the user, unless `--user` does.

    So its other words are the same wherever the user is named: `otolith profile why ann seat`,
    `otolith --user ann profile why seat`.
    """

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.params.append(
            click.Option(
                ["--user", "named_user"], metavar="ID", expose_value=False, callback=_use_user,
                help="Use this user, and leave out the first word.",
            )
        )  # fmt: skip

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters; without the word for the user, if an option names one."""
        found = super().get_params(ctx)
        return [each for each in found if each.name != "user" or not ctx.meta.get(_IS_NAMED)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Find out whether an option names the user, then read the words.

        Raises:
            UsageError: there are too many words; the hint says if one of them is the user.
        """
        options: GlobalOptions = ctx.obj
        words = args[: args.index("--")] if "--" in args else args
        ctx.meta[_IS_NAMED] = options.scope == "user" or any(
            word == "--user" or word.startswith("--user=") for word in words
        )
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if ctx.meta[_IS_NAMED] and "unexpected extra argument" in error.message:
                hint = "--user names the user: omit the first word"
                raise click.UsageError(f"{error.message}\n{hint}", ctx) from None
            raise


def reject_options(ctx: click.Context, names: Collection[str], why: str) -> None:
    """Refuse options that do not apply to this call, so that none is ignored silently.

    Raises:
        UsageError: one of them was given.
    """
    for option in ctx.command.params:
        source = ctx.get_parameter_source(option.name or "")
        if option.name in names and source is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option.opts[-1]} {why}")
