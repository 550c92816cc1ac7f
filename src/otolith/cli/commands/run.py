"""Running code on a session: `exec` for one step, `run` for the cells of a notebook or a script.

`shell`: a prompt on a session, where each input is a step and a commit.

`vars`: what a session has in its variables, told without reading any of them.
"""

from __future__ import annotations

import signal
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from otolith.cli.commands.agent import begin, max_seconds_option, max_steps_option
from otolith.cli.format.history import counted
from otolith.cli.format.workspace import (
    Printer,
    description,
    known,
    lines_of,
    one_of,
    save_figures,
    step_json,
    summary,
    variable_json,
)
from otolith.cli.location import at_hand
from otolith.cli.options import GlobalOptions, reject_options
from otolith.cli.run.cells import Batch, Record, Telling, cells_of, source_of
from otolith.cli.run.repl import Repl, lines_in
from otolith.cli.run.workspace import Limits, OpenWorkspace, bench_at, options, stopping
from otolith.cli.terminal import emit, json_option, page
from otolith.errors import Invalid
from otolith.workspace import Step

_FAILED, _INTERRUPTED = 1, 128 + signal.SIGINT
_FOR_CELLS = ("start", "fresh", "keep_going", "figures", *(each.name for each in fields(Limits)))

figures_option = click.option(
    "--figures", metavar="DIR", help="Save what was drawn to this directory, as PNG."
)


@click.command("exec")
@click.argument("session", required=False)
@click.argument("file", required=False)
@click.option("-c", "code", metavar="CODE", help="The code itself.")
@click.option("-m", "--message", metavar="TEXT", help="The message of the commit.")
@figures_option
@options
@json_option
@click.pass_context
def execute(
    ctx: click.Context,
    /,
    *,
    session: str | None,
    file: str | None,
    code: str | None,
    message: str | None,
    figures: str | None,
    as_json: bool,
    **limits: Any,
) -> None:
    """Run code as one step on the variables and files of a session, and commit what it did.

    The code is CODE, or that of FILE; `-` reads it from standard input. SESSION is the one at hand
    unless given. What the code prints and its value go to standard output. Leaves with 1 if it
    raised something; what it did until then is committed all the same.
    """
    asked: GlobalOptions = ctx.obj
    if code is None and file is None:
        session, file = None, session
    text = _code(asked, code, file)
    with bench_at(asked, session, Limits(**limits), mode="cold") as bench:
        printer = Printer()
        with stopping(bench.workspace) as stop:
            step = bench.workspace.run(
                text,
                message=message or (Path(file).name if file not in (None, "-") else None),
                on_output=None if as_json else printer,
            )
        _tell(bench, step, printer, asked, figures, as_json=as_json)
    ctx.exit(_exit_code(is_ok=step.ok, was_stopped=stop.was_asked))


def _code(asked: GlobalOptions, code: str | None, file: str | None) -> str:
    if code is not None and file is not None:
        raise click.UsageError("give -c CODE or a FILE, not both")
    if code is not None:
        return code
    if file is None:
        raise click.UsageError(
            "there is nothing to run\ngive -c CODE, a FILE, or - for standard in"
        )
    if file == "-":
        return sys.stdin.read()
    path = asked.directory / file
    if path.suffix == ".ipynb":
        raise Invalid(f"{file} is a notebook", hint="`otolith run` runs its cells")
    try:
        return source_of(path)
    except FileNotFoundError:
        hint = "`otolith exec SESSION FILE`, or `otolith exec SESSION -c CODE`"
        raise Invalid(f"there is no file {file}", hint=hint) from None
    except (SyntaxError, UnicodeDecodeError) as error:
        raise Invalid(f"{file} is no script: {error}", hint="save it as UTF-8") from None


def _tell(
    bench: OpenWorkspace,
    step: Step,
    printer: Printer,
    asked: GlobalOptions,
    figures: str | None,
    *,
    as_json: bool,
) -> None:
    saved = save_figures(step, None if figures is None else asked.directory / figures)
    if as_json:
        emit(step_json(step, saved))
        return
    printer.outcome(step)
    click.echo(summary(step, bench.state.name, saved), err=True)


def _exit_code(*, is_ok: bool, was_stopped: bool) -> int:
    if was_stopped:
        return _INTERRUPTED
    return 0 if is_ok else _FAILED


@click.command("run")
@click.argument("file")
@click.argument("task", required=False)
@click.option("--session", metavar="ID", help="The session.  [default: the one at hand]")
@click.option("--again", is_flag=True, help="An agent: do it again, though it is done.")
@max_steps_option
@max_seconds_option
@click.option("--from", "start", type=click.IntRange(min=1), metavar="N", help="Start with cell N.")
@click.option("--fresh", is_flag=True, help="Run all cells, whatever was run before.")
@click.option("--keep-going", is_flag=True, help="Go on after a cell that failed.")
@figures_option
@options
@json_option
@click.pass_context
def run(
    ctx: click.Context,
    /,
    *,
    file: str,
    task: str | None,
    session: str | None,
    start: int | None,
    fresh: bool,
    keep_going: bool,
    figures: str | None,
    as_json: bool,
    **limits: Any,
) -> None:
    """Run a notebook or a script in a session, cell by cell; or FILE.py:NAME, an agent.

    An agent, orchestrator or task is told to do TASK, in steps that are commits; for a task, TASK
    is a JSON object with its arguments. Its file is imported, and it runs in this very process,
    without a sandbox. Saying the same again goes on where it was. It leaves with 1 if it ended with
    an error, and with 8 if it is not over: see `otolith resume`.

    The cells of a script are divided by lines that start with `# %%`. Cells that this session has
    run already, with the same source and the same cells before them, are left out: a run that was
    interrupted, or failed and was mended, goes on where it stopped. Leaves with 1 at the first cell
    that fails.
    """
    asked: GlobalOptions = ctx.obj
    for_agents = {name: limits.pop(name) for name in ("again", "max_steps", "max_seconds")}
    if ":" in file and not (asked.directory / file).exists():
        if task is None:
            raise click.UsageError(f"say what {file} is to do: otolith run {file} TASK")
        reject_options(ctx, _FOR_CELLS, f"is for the cells of a script or notebook, not for {file}")
        begin(ctx, file, task, session=session, as_json=as_json, **for_agents)
        return
    if task is not None:
        raise click.UsageError(f"to run an agent of a file, name it: {file}:NAME")
    reject_options(
        ctx, tuple(for_agents), f"is for an agent, FILE.py:NAME, not for the cells of {file}"
    )
    if fresh and start is not None:
        raise click.UsageError("say --fresh or --from N, not both")
    path = asked.directory / file
    cells = cells_of(path)
    if start is not None and start > len(cells):
        raise Invalid(f"{file} has {counted(len(cells), 'cell')}, and none is number {start}")
    with bench_at(asked, session, Limits(**limits), mode="warm") as bench:
        record = Record(bench.state, path.name)
        first = start or (1 if fresh else record.done(cells) + 1)
        batch = Batch(bench.workspace, record, path.name, cells, start=first)
        telling = Telling(bench.state.name, file, len(cells), first - 1, is_silent=as_json)
        was_taken_back = not fresh and batch.take_back()
        telling.begin(is_resumed=start is None, was_taken_back=was_taken_back)
        folder = None if figures is None else asked.directory / figures
        for ran in batch.steps(telling.before):
            telling.after(ran, save_figures(ran.step, folder))
            if ran.was_stopped or not (ran.step.ok or keep_going):
                break
    telling.end()
    ctx.exit(_exit_code(is_ok=not telling.failed, was_stopped=telling.was_stopped))


@click.command("shell")
@click.argument("session", required=False)
@options
@click.pass_obj
def shell(asked: GlobalOptions, /, *, session: str | None, **limits: Any) -> None:
    """Type Python at a prompt, on the variables and files of a session.

    Each input is a step and a commit. SESSION is the one at hand unless given. Ctrl-C interrupts
    the step, Ctrl-D leaves, `:help` lists what else there is. Without a terminal, input is read
    from standard input.
    """
    with bench_at(asked, session, Limits(**limits), mode="warm") as bench, lines_in() as lines:
        Repl(bench, lines).loop()


@click.command("vars")
@click.argument("session", required=False)
@click.argument("name", required=False)
@click.option("--at", "ref", default="@", metavar="REF", help="As of this commit.")
@json_option
@click.pass_obj
def variables(
    asked: GlobalOptions, session: str | None, name: str | None, ref: str, as_json: bool
) -> None:
    """List the variables of a session, or tell all that is known of NAME.

    SESSION is the one at hand unless given. Nothing is unpickled, and no large value is read.
    """
    if session is not None:
        asked = asked._replace(session=session)
    with at_hand(asked, read_only=True) as desk:
        found = known(desk.repo.at(desk.commit(ref)))
    if name is None:
        if as_json:
            emit({"variables": [variable_json(each) for each in found.values()]})
        else:
            page(lines_of(found), asked)
        return
    one = one_of(found, name)
    if as_json:
        emit(variable_json(one))
    else:
        page(description(one), asked)
