"""Code in a session: `exec` one step, `run` a notebook, script or agent, `shell`, `vars`.

Code runs in a process of its own, in a sandbox, and each step is a commit. Only `run FILE.py:NAME`
runs the user's code in this process: see `commands/agent.py`. What the code prints goes to standard
output; which variables and files it changed, to standard error. Exit codes: 1 if the code raised,
130 if the user interrupted it.
"""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from otolith.cli.commands.agent import begin, max_seconds_option, max_steps_option
from otolith.cli.errors import ExitCode, terminal_error
from otolith.cli.format.history import plural
from otolith.cli.format.workspace import (
    Printer,
    describe_variables,
    description,
    find_variable,
    save_figures,
    step_json,
    summary,
    variable_json,
    variable_lines,
)
from otolith.cli.location import find, open_current, open_repo, ref_not_found
from otolith.cli.options import (
    GlobalOptions,
    SessionCommand,
    at_option,
    json_option,
    reject_options,
    session_and_word,
    session_argument,
)
from otolith.cli.run.cells import CellReporter, CellRun, RunRecord, cells_of, source_of
from otolith.cli.run.repl import Repl, input_lines
from otolith.cli.run.workspace import (
    RunnerOptions,
    handle_interrupts,
    open_workspace,
    runner_options,
)
from otolith.cli.terminal import emit, output
from otolith.errors import Invalid, KeyNotFound

# The options of `run` that an agent has no use for.
_FOR_CELLS = ("start", "fresh", "keep_going", "figures", *(f.name for f in fields(RunnerOptions)))

figures_option = click.option(
    "--figures", metavar="DIR", help="Save figures to this directory, as PNG."
)


@click.command("exec", cls=SessionCommand)
@click.argument("words", nargs=-1, metavar="[SESSION] [FILE]")
@click.option("-c", "code", metavar="CODE", help="The code itself.")
@click.option("-m", "--message", metavar="TEXT", help="The message of the commit.")
@figures_option
@runner_options
@json_option
@click.pass_context
def execute(
    ctx: click.Context, /, *, words: tuple[str, ...], code: str | None, message: str | None,
    figures: str | None, **runner: Any,
) -> None:  # fmt: skip
    """Run code as one step on the variables and files of a session, and commit its changes.

    The code is CODE, or that of FILE; `-` reads it from standard input. SESSION defaults to the
    current one. What the code prints, and its value, go to standard output. Exits with 1 if it
    raised; its changes until then are committed.
    """
    options: GlobalOptions
    options, file = session_and_word(ctx.obj, words, is_last_needed=code is None)
    text = _code(options, code, file)
    if message is None and file not in (None, "-"):
        message = Path(str(file)).name
    with open_workspace(options, RunnerOptions(**runner), mode="cold") as opened:
        printer = Printer()
        with handle_interrupts(opened.workspace) as interrupts:
            on_output = None if options.as_json else printer
            step = opened.workspace.run(text, message=message, on_output=on_output)
        saved = save_figures(step, None if figures is None else options.directory / figures)
        if options.as_json:
            emit(step_json(step, saved))
        else:
            printer.outcome(step)
            click.echo(summary(step, opened.state.name, saved), err=True)
    ctx.exit(_exit_code(is_ok=step.ok, was_interrupted=interrupts.was_interrupted))


def _code(options: GlobalOptions, code: str | None, file: str | None) -> str:
    """Return the code to run: given, or read from a file or standard input.

    Raises:
        UsageError: both are given, or neither.
        Invalid: the file does not exist, or is not a script.
    """
    if code is not None and file is not None:
        raise click.UsageError("give -c CODE or a FILE, not both")
    if code is not None:
        return code
    if file is None:
        hint = "give -c CODE, a FILE, or - for standard input"
        raise click.UsageError(f"there is no code to run\n{hint}")
    if file == "-":
        return sys.stdin.read()
    path = options.directory / file
    if path.suffix == ".ipynb":
        raise Invalid(f"{file} is a notebook", hint="`otolith run` runs its cells")
    try:
        return source_of(path)
    except FileNotFoundError:
        hint = "`otolith exec SESSION FILE`, or `otolith exec SESSION -c CODE`"
        raise Invalid(f"there is no file {file}", hint=hint) from None
    except (SyntaxError, UnicodeDecodeError) as error:
        raise Invalid(f"{file} is not a script: {error}", hint="save it as UTF-8") from None


def _exit_code(*, is_ok: bool, was_interrupted: bool) -> ExitCode:
    """Return the exit code of steps; an interrupt counts more than how the step ended."""
    if was_interrupted:
        return ExitCode.INTERRUPTED
    return ExitCode.OK if is_ok else ExitCode.FAILED


@click.command("run", cls=SessionCommand)
@click.argument("file")
@click.argument("task", required=False)
@click.option("--again", is_flag=True, help="For an agent: repeat a run that is done.")
@max_steps_option
@max_seconds_option
@click.option("--from", "start", type=click.IntRange(min=1), metavar="N", help="Start with cell N.")
@click.option("--fresh", is_flag=True, help="Run all cells, also those that were run before.")
@click.option("--keep-going", is_flag=True, help="Continue after a cell that failed.")
@figures_option
@runner_options
@json_option
@click.pass_context
def run(
    ctx: click.Context, /, *, file: str, task: str | None, start: int | None, fresh: bool,
    keep_going: bool, figures: str | None, **runner: Any,
) -> None:  # fmt: skip
    """Run a notebook or script in a session, cell by cell; or FILE.py:NAME, an agent.

    An agent, orchestrator or task works on TASK, in steps that are commits; for a task, TASK is a
    JSON object with its arguments. Its file is imported, and runs in this process, without a
    sandbox. The same command again resumes it. Exits with 1 if it ended with an error, and with 8
    if it is not finished: see `otolith resume`.

    The cells of a script are separated by lines that start with `# %%`. Cells that the session has
    run before, with the same source and the same cells before them, are skipped: a run that was
    interrupted, or failed and was fixed, continues where it stopped. Exits with 1 at the first cell
    that fails.
    """
    options: GlobalOptions = ctx.obj
    for_agents = {name: runner.pop(name) for name in ("again", "max_steps", "max_seconds")}
    if ":" in file and not (options.directory / file).exists():
        if task is None:
            raise click.UsageError(f"{file} needs a task: otolith run {file} TASK")
        why = f"applies to the cells of a script or notebook, not to {file}"
        reject_options(ctx, _FOR_CELLS, why)
        begin(ctx, file, task, **for_agents)
        return
    if task is not None:
        raise click.UsageError(f"to run an agent of a file, name it: {file}:NAME")
    why = f"applies to an agent, FILE.py:NAME, not to the cells of {file}"
    reject_options(ctx, tuple(for_agents), why)
    if fresh and start is not None:
        raise click.UsageError("give --fresh or --from N, not both")
    path = options.directory / file
    cells = cells_of(path)
    if start is not None and start > len(cells):
        raise Invalid(f"--from is {start}, and {file} has {plural(len(cells), 'cell')}")
    with open_workspace(options, RunnerOptions(**runner), mode="warm") as opened:
        record = RunRecord(opened.state, path.name)
        first = start or (1 if fresh else record.done(cells) + 1)
        cell_run = CellRun(opened.workspace, record, path.name, cells, start=first)
        reporter = CellReporter(opened.state.name, file, len(cells), first - 1, options.as_json)
        was_undone = not fresh and cell_run.undo_failed()
        reporter.begin(is_resumed=start is None, was_undone=was_undone)
        folder = None if figures is None else options.directory / figures
        for result in cell_run.results(reporter.before):
            reporter.after(result, save_figures(result.step, folder))
            if result.was_interrupted or not (result.step.ok or keep_going):
                break
    reporter.end()
    ctx.exit(_exit_code(is_ok=not reporter.failed, was_interrupted=reporter.was_interrupted))


@click.command("shell", cls=SessionCommand)
@session_argument
@runner_options
@click.pass_obj
def shell(options: GlobalOptions, /, **runner: Any) -> None:
    """Open a Python prompt on the variables and files of a session.

    Each input is a step and a commit. SESSION defaults to the current one. Ctrl-C interrupts the
    step, Ctrl-D leaves, `:help` lists the commands. Without a terminal, input is read from standard
    input.
    """
    with (
        open_workspace(options, RunnerOptions(**runner), mode="warm") as opened,
        input_lines() as lines,
    ):
        Repl(opened, lines).loop()


def _is_session(options: GlobalOptions, word: str) -> bool:
    """Tell whether a word names a session; without a current one, it must be meant to."""
    location = find(options)
    if location.session is None:
        return True
    with open_repo(location.url, read_only=True) as repo:
        return any(each.id == word for each in repo.sessions())


@click.command("vars", cls=SessionCommand)
@click.argument("words", nargs=-1, metavar="[SESSION] [NAME]")
@at_option
@json_option
@click.pass_obj
def variables(options: GlobalOptions, words: tuple[str, ...], ref: str) -> None:
    """List the variables of a session, or describe NAME.

    SESSION defaults to the current one. A single word is SESSION if there is one of that name, and
    else NAME. Nothing is unpickled, and no large value is read.
    """
    is_name = len(words) == 1 and not _is_session(options, words[0])
    options, name = session_and_word(options, words, is_last_needed=is_name)
    with open_current(options, read_only=True) as current:
        found = describe_variables(current.at(ref))
        if is_name and name is not None and name not in found:
            sessions = [each.id for each in current.repo.sessions()]
            raise _no_such_word(name, [*sessions, *found])
    if name is None:
        data = [variable_json(each) for each in found.values()]
        output(options, lambda: {"variables": data}, variable_lines(found))
    else:
        one = find_variable(found, name)
        output(options, lambda: variable_json(one), description(one))


def _no_such_word(word: str, known: list[str]) -> KeyNotFound:
    """Return the error for a word that is neither a session nor a variable of the current one."""
    begin = f"`otolith vars` lists variables, `otolith exec {word} -c CODE` begins a session"
    near = ref_not_found("", word, known, begin)
    return terminal_error(KeyNotFound, f"there is no session or variable {word}", near.hint)
