"""`worker`: works on the runs of flows in all sessions of a store, until it is stopped.

The user's files are imported, and their functions run in this process, or where `--executor` says,
without a sandbox. What happens is a line on standard output; in a terminal, a line of progress is
below. Exit codes: 130 after Ctrl-C, 0 after a SIGTERM; what runs is given back first, so that other
workers take it. With `--once`: 1 if a run failed that it worked on, 8 if one waits or was left.

JSON: a line for each change: see `report` in `format/flows.py`.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType

import click
from click.core import ParameterSource

from otolith.cli.errors import ExitCode, in_commands
from otolith.cli.format.flows import report_json, report_line
from otolith.cli.format.history import plural
from otolith.cli.location import find, open_repo
from otolith.cli.options import GlobalOptions, json_lines_option
from otolith.cli.run.flow_code import load_flows
from otolith.cli.terminal import dumps, end_progress, escape, escape_line
from otolith.flows import (
    ExpectedEnd,
    Forecast,
    ProgressLine,
    StoreWorker,
    WorkProgress,
    WorkReport,
    open_executor,
)

_PATIENCE_SECONDS = 60.0


class _Stop:
    """Notes that the process is to end; a second signal interrupts at once."""

    def __init__(self) -> None:
        self.signal = 0

    def __call__(self, number: int, _: FrameType | None) -> None:
        """Note a signal."""
        if self.signal:
            raise KeyboardInterrupt
        self.signal = number


@contextmanager
def _stopped_by_signals() -> Iterator[_Stop]:
    """Let Ctrl-C and SIGTERM end the work between two turns, so that what runs is given back."""
    stop = _Stop()
    if current_thread() is not main_thread():  # another program calls this, and has the signals
        yield stop
        return
    before = {each: signal.signal(each, stop) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


class _Display:
    """Prints what a worker reports, and how far it is."""

    def __init__(self, options: GlobalOptions) -> None:
        self._as_json = options.as_json
        has_line = not self._as_json and sys.stderr.isatty()
        self._expected = ExpectedEnd(lambda: self._look())  # noqa: PLW0108 - it changes
        more = self._expected.text
        self._line = ProgressLine(lambda: self._progress, more=more) if has_line else None
        self._progress = WorkProgress("", 0, 0, 0.0, "")
        self._look: Callable[[], Forecast | None] = lambda: None
        self._is_shown = False
        self._ends: dict[tuple[str, str], str] = {}

    def report(self, report: WorkReport) -> None:
        """Print a line."""
        hint = in_commands(report.hint)
        if report.kind in ("run", "left"):
            self._ends[report.session, report.key] = report.status
        if self._as_json:
            data = report_json(report)
            click.echo(dumps({**data, "hint": hint} if "hint" in data else data, indent=None))
            return
        self.clear()
        if report.kind in ("away", "back"):
            click.echo(escape_line(report_line(report, hint)), err=True)
        else:
            click.echo(escape_line(report_line(report, hint)))

    def show(self, worker: StoreWorker) -> None:
        """Show how far it is, in its place on the terminal."""
        if self._line is None:
            return
        progress, self._look = worker.progress(), worker.forecast
        if progress is None:
            self.clear()
        else:
            self._progress, self._is_shown = progress, True
            self._line.show()

    def clear(self) -> None:
        """Remove the line of progress."""
        if self._is_shown:
            end_progress()
            self._is_shown = False

    def exit_code(self) -> ExitCode:
        """Return how the runs ended that were worked on."""
        ends = set(self._ends.values())
        if "failed" in ends:
            return ExitCode.FAILED
        return ExitCode.UNFINISHED if ends & {"waiting", "paused", "left"} else ExitCode.OK


@click.command("worker")
@click.argument("store", required=False)
@click.option(
    "--code", "codes", metavar="CODE", multiple=True, required=True,
    help="FILE.py:FLOW or module:FLOW; without :FLOW, all flows in it. May be repeated.",
)  # fmt: skip
@click.option(
    "--slots", type=click.IntRange(min=1), metavar="N", help="How many tasks run at once."
)
@click.option(
    "--executor", metavar="WHERE", default="threads", show_default=True,
    help="Where tasks run: threads, processes, dask://HOST:PORT or dbos.",
)  # fmt: skip
@click.option(
    "--edited", type=click.Choice(["ask", "keep", "rerun"]),
    help="What to do with results of functions that were edited since; by default, as a flow says.",
)  # fmt: skip
@click.option("--once", is_flag=True, help="End when nothing can go on.")
@json_lines_option
@click.pass_context
def worker(
    ctx: click.Context, /, *, store: str | None, codes: Sequence[str], slots: int | None,
    executor: str, edited: str | None, once: bool,
) -> None:  # fmt: skip
    """Work on the runs of flows in all sessions of a store, until Ctrl-C.

    STORE is a path or URL; without it, the current store. CODE is imported, and its functions run
    without a sandbox. Any number of workers may work at once, also on other machines: each task is
    done by one. When one dies, the others take over what it had. Runs of flows that CODE does not
    have are left alone, and so are branches other than main.
    """
    options = _for_store(ctx, store)
    flows = load_flows(options, codes)
    display = _Display(options)
    with (
        open_executor(executor, slots=slots) as chosen,
        open_repo(find(options).url, opaque=False) as repo,
        _stopped_by_signals() as stop,
    ):
        found = StoreWorker(
            repo,
            flows,
            chosen,
            open_state=repo.session,
            edited=edited,
            report=display.report,
            reports_tasks=options.as_json,
        )
        if not options.as_json:
            names = escape(", ".join(each.name for each in flows))
            end = "" if once else "; Ctrl-C ends it"
            text = f"Works on {names}, {plural(chosen.slots, 'task')} at once{end}."
            click.echo(text, err=True)
        try:
            found.work(
                once=once,
                is_stopped=lambda: bool(stop.signal),
                on_turn=lambda: display.show(found),
                patience_seconds=_PATIENCE_SECONDS if once else None,
            )
        finally:
            display.clear()
    if stop.signal == signal.SIGINT:
        ctx.exit(ExitCode.INTERRUPTED)
    if once and not stop.signal:
        ctx.exit(display.exit_code())


def _for_store(ctx: click.Context, store: str | None) -> GlobalOptions:
    """Return the options with the store that the command line names, if it does.

    Raises:
        UsageError: another was named before the command; or a session, a user or a branch.
    """
    options: GlobalOptions = ctx.obj
    if options.session is not None or options.branch is not None:
        raise click.UsageError("a worker works on all sessions\nomit -s, -b, --user, --app, --team")
    if store is None or store == options.store:
        return options
    above = ctx.parent.get_parameter_source("store") if ctx.parent is not None else None
    if above is ParameterSource.COMMANDLINE:
        raise click.UsageError(f"the store is named twice: {options.store} and {store}\nname one")
    return options._replace(store=store)
