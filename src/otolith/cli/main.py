"""The `otolith` program: global options, commands loaded on use, errors as exit codes.

Rules for commands:

- A command is listed in `COMMANDS` and lives in a module of `cli/commands`. Help reads the table,
  so that `otolith --help` imports no command, and a command imports only its own module.
- It raises an `Error` of otolith, or a `click.UsageError` whose second line is the hint. `Program`
  turns both into a message and an exit code (see `errors.py`); nothing else catches them.
- An exit code that is not an error (differences, an unfinished run) is set by `ctx.exit(code)`.
- It opens the store read-only unless it changes something, and prints by `terminal.output`.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

import click
from click.exceptions import NoArgsIsHelpError

from otolith import __version__
from otolith.cli.errors import (
    ExitCode,
    exit_code,
    exit_code_of_system,
    hint_of,
    plain_warnings,
    report,
)
from otolith.cli.options import MEMBER_HELP, GlobalOptions
from otolith.errors import Error

# Command -> (module that defines it, what it does). Help reads this table and imports nothing.
COMMANDS: dict[str, dict[str, tuple[str, str]]] = {
    "Start": {
        "init": ("init", "make a store in this directory"),
        "demo": ("demo", "kill, resume, branch and merge an agent in twenty seconds"),
        "doctor": ("doctor", "check that this machine can hold a store"),
        "help": ("init", "show this page, or the help of a command"),
    },
    "Look": {
        "status": ("status", "current branch, staged edits, conflicts"),
        "log": ("show", "commits, newest first"),
        "show": ("show", "a commit and its changes, or a value at a commit"),
        "diff": ("show", "differences between two states"),
        "cat": ("show", "one value, raw"),
        "ls": ("show", "names, kinds and sizes"),
        "blame": ("show", "the commit that last set each value"),
        "sessions": ("status", "all sessions of the store"),
        "users": ("status", "the users that sessions share, with their own states"),
        "apps": ("status", "the applications that sessions share, with their own states"),
        "profile": ("profile", "what is known about a user, and why; consent, export, erasure"),
        "teams": ("status", "the teams, whose states several members share"),
        "chat": ("chat", "conversation: show, threads, search, topics, context"),
        "memory": ("chat", "working memory: goal, plan, notes"),
        "events": ("agent", "recorded events, in order"),
        "stats": ("maintain", "size of the store, and what takes the space"),
    },
    "Change": {
        "set": ("edit", "stage a value"),
        "rm": ("edit", "stage the removal of a value"),
        "restore": ("edit", "discard staged edits"),
        "commit": ("edit", "commit staged edits"),
        "rollback": ("edit", "restore an earlier state, as a new commit"),
        "undo": ("edit", "undo the last commit, merge or rollback"),
        "redo": ("edit", "redo the last undo"),
    },
    "Run": {
        "exec": ("run", "run code as one step, and commit its changes"),
        "run": ("run", "run a notebook or script cell by cell, or an agent"),
        "shell": ("run", "a Python prompt; each input is a commit"),
        "vars": ("run", "variables of a session"),
        "chart": ("chart", "check, simulate, draw and convert statecharts"),
        "resume": ("agent", "resume a run of an agent"),
        "replay": ("agent", "repeat a run from any commit, on a new branch"),
        "flow": ("flow", "runs of flows: their tasks, what they hang on, retry, cancel, answer"),
        "worker": ("worker", "work on the runs of flows in all sessions"),
        "effects": ("agent", "recorded effects of tools"),
    },
    "Branch": {
        "branch": ("branch", "list, create or delete branches"),
        "switch": ("branch", "switch to another branch or session"),
        "merge": ("merge", "merge another branch into this one"),
        "tag": ("branch", "list, create or delete tags"),
    },
    "Share": {
        "team": ("team", "members, leases, queues, proposals and conflicts of a team"),
        "clone": ("remote", "copy a whole store into a new directory"),
        "push": ("remote", "copy branches and tags to another store"),
        "pull": ("remote", "fetch from another store, and merge what came"),
        "fetch": ("remote", "copy the branches of another store, without merging"),
        "mirror": ("remote", "make another store an exact copy of this one"),
        "remote": ("remote", "name other stores"),
    },
    "Maintain": {
        "fsck": ("maintain", "verify every stored object"),
        "gc": ("maintain", "delete unreachable objects and free their space"),
        "migrate": ("migrate", "rewrite values stored by older versions of your classes"),
        "key": ("key", "show or rotate the keys that sign pickles, and sign anew"),
    },
}

# Words that users of git try, and what they may mean by them.
_OTHER_WORDS = {
    "checkout": (
        "`otolith switch BRANCH` works on another branch, `otolith show COMMIT:PATH` reads a "
        "commit, `otolith rollback COMMIT` goes back to it"
    ),
    "reset": "`otolith restore` discards staged edits, `otolith rollback COMMIT` goes back",
    "revert": "`otolith undo` undoes the last commit, `otolith rollback COMMIT` goes back",
    "stash": "staged edits are stored with their branch: `otolith switch` leaves them there",
    "add": "`otolith set PATH VALUE` stages a value; files of a session are committed by `exec`",
}

_MODULES = {name: home for group in COMMANDS.values() for name, (home, _) in group.items()}


class Program(click.Group):
    """A group whose commands are imported when they are used, and whose errors are reported.

    Tests, and programs that embed it, call it with `standalone_mode=False` to get the exceptions.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of the help page."""
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a command and return the command, or None if it is unknown."""
        home = _MODULES.get(cmd_name)
        if home is None:
            return None
        module = importlib.import_module(f"otolith.cli.commands.{home}")
        found = (item for item in vars(module).values() if isinstance(item, click.Command))
        return next(command for command in found if command.name == cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command.

        Raises:
            UsageError: there is none; the hint suggests the nearest name.
        """
        if args and args[0] not in _MODULES:
            near = _nearest(args[0])
            hint = f"did you mean `otolith {near}`?" if near else "see `otolith help`"
            hint = _OTHER_WORDS.get(args[0], hint)
            raise click.UsageError(f"unknown command {args[0]!r}\n{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in their groups."""
        width = max(map(len, _MODULES))
        for title, group in COMMANDS.items():
            with formatter.section(title):
                rows = [(name.ljust(width), what) for name, (_, what) in group.items()]
                formatter.write_dl(rows)

    def main(self, args: Any = None, *_: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run a command and exit with its code; an `Error` becomes a message, not a traceback."""
        if not standalone_mode:
            return super().main(args, standalone_mode=False, **extra)
        sys.exit(self._code(args, extra))

    def _code(self, args: Any, extra: dict[str, Any]) -> int:
        """Run a command and return its exit code; errors are reported here, and only here."""
        try:
            with plain_warnings():
                code = super().main(args, standalone_mode=False, **extra)
            sys.stdout.flush()
        except click.ClickException as error:
            return _usage(error)
        except Error as error:
            report(error.message, hint_of(error))
            return exit_code(error)
        except SystemExit:  # click exits like this only when the reader of a pipe is gone
            return ExitCode.BROKEN_PIPE
        except BrokenPipeError:
            # Python flushes stdout again at exit; send that to the null device.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return ExitCode.BROKEN_PIPE
        except OSError as error:
            report(str(error), "check the path, its permissions and the free disk space")
            return exit_code_of_system(error)
        except (click.Abort, KeyboardInterrupt):
            return ExitCode.INTERRUPTED
        return code if isinstance(code, int) else 0


def _nearest(word: str) -> str | None:
    """Return the command that a word may mean; letters in another order are the likeliest slip."""
    near = get_close_matches(word, _MODULES)
    return min(near, key=lambda name: sorted(name) != sorted(word), default=None)


def _usage(error: click.ClickException) -> int:
    """Report an error of click, with our own hint if it has none, and return the exit code."""
    if isinstance(error, NoArgsIsHelpError):  # a group without a command
        click.echo(error.format_message())
        return 0
    # click puts the choices of an argument on lines of their own, each after a tab.
    text = error.format_message().replace(":\n\t", ": ").replace("\n\t", " ")
    message, _, hint = text.partition("\n")
    context = getattr(error, "ctx", None)
    global_options = {name for parameter in program.params for name in parameter.opts}
    if not hint and isinstance(error, click.NoSuchOption) and error.option_name in global_options:
        hint = f"it goes before the command: otolith {error.option_name} …"
    elif not hint and context is not None:
        hint = f"see `{context.command_path} --help`"
    report(message[:1].lower() + message[1:], hint)
    return error.exit_code


@click.group(
    cls=Program,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="REF is a branch, a tag, @ (here), main~2, or the first digits of a commit.",
)
@click.version_option(__version__, prog_name="otolith")
@click.option("--store", metavar="URL", envvar="OTOLITH_STORE", help="A store: a path or URL.")
@click.option("-s", "--session", metavar="ID", help="Use this session instead of the current one.")
@click.option("-b", "--branch", metavar="NAME", help="Use this branch instead of the current one.")
@click.option("--user", metavar="ID", help="Use the state of this user instead of a session.")
@click.option("--app", metavar="NAME", help="Use the state of this application.")
@click.option("--team", metavar="ID", help="Use the state of this team.")
@click.option("--as", "member", metavar="MEMBER", help=MEMBER_HELP)
@click.option(
    "-C", "directory", metavar="DIR", default=".", help="Work as if started in this directory.",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)  # fmt: skip
@click.option(
    "--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True
)
@click.option("--no-pager", is_flag=True, help="Never page, even on a terminal.")
@click.pass_context
def program(
    ctx: click.Context,
    /,
    *,
    store: str | None,
    session: str | None,
    branch: str | None,
    member: str | None,
    directory: Path,
    color: str,
    no_pager: bool,
    **scopes: str | None,
) -> None:
    """Version control for what an agent knows."""
    # The docstring is the head of `otolith --help`; without a command, that page is shown.
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    # None leaves it to whether the output is a terminal.
    ctx.color = (False if plain else None) if color == "auto" else color == "always"
    options = GlobalOptions(store, session, branch, directory, is_paged=not no_pager, member=member)
    for scope, id in scopes.items():  # user, app, team
        options = options.for_scope(scope, id)
    ctx.obj = options
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main() -> NoReturn:
    """Run `otolith` with the arguments of this process, and exit. The entry point of the script."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # escape what this terminal cannot show
            stream.reconfigure(errors="backslashreplace")
    program.main()
    raise SystemExit(0)
