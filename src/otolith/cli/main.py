"""The program: global options, verbs that load when they are used, errors as exit codes."""

from __future__ import annotations

import importlib
import io
import os
import signal
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

import click
from click.exceptions import NoArgsIsHelpError

from otolith import __version__
from otolith.cli.errors import exit_code, hint_of, report
from otolith.cli.options import GlobalOptions
from otolith.errors import Error

# Verb -> (module that has it, what it does). Help reads this table and loads nothing.
VERBS: dict[str, dict[str, tuple[str, str]]] = {
    "Start": {
        "init": ("init", "make a store in this directory"),
        "demo": ("init", "see the whole story in twenty seconds"),
        "doctor": ("maintain", "check that this machine is fit for a store"),
        "help": ("init", "show this, or the help of a verb"),
    },
    "Look": {
        "status": ("status", "the branch at hand, staged edits, conflicts"),
        "log": ("show", "commits, the latest first"),
        "show": ("show", "a commit and what it changed, or a value as it was"),
        "diff": ("show", "what differs between two states"),
        "cat": ("show", "one value, raw"),
        "ls": ("show", "names, kinds and sizes"),
        "blame": ("show", "which commit set what is there now"),
        "sessions": ("status", "all sessions of the store"),
        "chat": ("chat", "what was said: show, threads, search, topics, context"),
        "memory": ("chat", "what an agent has in mind: goal, plan, notes"),
        "events": ("agent", "what happened, in order"),
        "stats": ("maintain", "how much is stored, and what takes the room"),
    },
    "Change": {
        "set": ("edit", "stage a value"),
        "rm": ("edit", "stage the removal of a value"),
        "restore": ("edit", "drop staged edits"),
        "commit": ("edit", "make staged edits part of history"),
        "rollback": ("edit", "go back to an earlier state, by a new commit"),
        "undo": ("edit", "take back the last commit, merge or rollback"),
        "redo": ("edit", "take back the last undo"),
    },
    "Run": {
        "exec": ("run", "run code as one step, and commit what it did"),
        "run": ("run", "run a notebook or a script, cell by cell, or an agent"),
        "shell": ("run", "type Python at a prompt, each input a commit"),
        "vars": ("run", "the variables of a session"),
        "chart": ("chart", "check, play, draw and convert statecharts"),
        "resume": ("agent", "go on with a run of an agent"),
        "replay": ("agent", "repeat a run from any commit, on a branch"),
        "effects": ("agent", "what agents did to the world"),
    },
    "Branch": {
        "branch": ("branch", "list, make or delete branches"),
        "checkout": ("branch", "choose the branch or session at hand"),
        "merge": ("merge", "join another branch into this one"),
        "tag": ("branch", "list, make or delete names that do not move"),
    },
    "Keep": {
        "fsck": ("maintain", "check that everything stored is whole"),
        "gc": ("maintain", "drop what nothing reaches, and give the space back"),
        "migrate": ("migrate", "store what older versions of your classes left as of today"),
    },
}

_HOME = {verb: home for group in VERBS.values() for verb, (home, _) in group.items()}
_UNAVAILABLE = 6
_INTERRUPTED, _BROKEN_PIPE = 128 + signal.SIGINT, 128 + 13  # as a shell counts them


class Program(click.Group):
    """A group whose verbs are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_HOME)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        home = _HOME.get(cmd_name)
        if home is None:
            return None
        module = importlib.import_module(f"otolith.cli.commands.{home}")
        found = (item for item in vars(module).values() if isinstance(item, click.Command))
        return next(command for command in found if command.name == cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _HOME:
            near = get_close_matches(args[0], _HOME, n=1)
            hint = f"did you mean `otolith {near[0]}`?" if near else "see `otolith help`"
            raise click.UsageError(f"there is no verb {args[0]!r}\n{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, _HOME))
        for title, verbs in VERBS.items():
            with formatter.section(title):
                formatter.write_dl([(verb.ljust(width), what) for verb, (_, what) in verbs.items()])

    def main(self, args: Any = None, *_: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run a verb; leave with its exit code, and never with a traceback for an Error."""
        if not standalone_mode:
            return super().main(args, standalone_mode=False, **extra)
        sys.exit(self._code(args, extra))

    def _code(self, args: Any, extra: dict[str, Any]) -> int:
        try:
            code = super().main(args, standalone_mode=False, **extra)
            sys.stdout.flush()
        except click.ClickException as error:
            return _usage(error)
        except Error as error:
            report(error.message, hint_of(error))
            return exit_code(error)
        except SystemExit:  # click leaves like this for one reason: the reader of a pipe left
            return _BROKEN_PIPE
        except BrokenPipeError:
            # Python flushes stdout again on its way out; let that go nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return _BROKEN_PIPE
        except OSError as error:
            report(str(error), "check the path, its permissions and the room on the disk")
            return _UNAVAILABLE
        except (click.Abort, KeyboardInterrupt):
            return _INTERRUPTED
        return code if isinstance(code, int) else 0


def _usage(error: click.ClickException) -> int:
    if isinstance(error, NoArgsIsHelpError):  # a group of verbs by itself
        click.echo(error.format_message())
        return 0
    message, _, hint = error.format_message().partition("\n")
    context = getattr(error, "ctx", None)
    if not hint and isinstance(error, click.NoSuchOption) and _is_global(error.option_name):
        hint = f"it goes before the verb: otolith {error.option_name} …"
    elif not hint and context is not None:
        hint = f"see `{context.command_path} --help`"
    report(message[:1].lower() + message[1:], hint)
    return error.exit_code


def _is_global(option: str) -> bool:
    return any(option in parameter.opts for parameter in program.params)


@click.group(
    cls=Program,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="REF is a branch, a tag, @ (here), main~2, or the first digits of a commit.",
)
@click.version_option(__version__, prog_name="otolith")
@click.option("--store", metavar="URL", envvar="OTOLITH_STORE", help="A store: a path or URL.")
@click.option("-s", "--session", metavar="ID", help="The session, instead of the one at hand.")
@click.option("-b", "--branch", metavar="NAME", help="The branch, instead of the one at hand.")
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
    *,
    store: str | None,
    session: str | None,
    branch: str | None,
    directory: Path,
    color: str,
    no_pager: bool,
) -> None:
    """Version control for what an agent knows."""
    ctx.color = _color(color)
    ctx.obj = GlobalOptions(store, session, branch, directory, is_paged=not no_pager)
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _color(choice: str) -> bool | None:
    """Return whether to colour; None leaves it to whether the output is a terminal."""
    if choice != "auto":
        return choice == "always"
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return False if plain else None


def main() -> NoReturn:
    """Run `otolith` with the arguments of this process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # say what this terminal cannot, in escapes
            stream.reconfigure(errors="backslashreplace")
    program.main()
    raise SystemExit(0)
