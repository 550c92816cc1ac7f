"""Executors by text, as the command line names them.

inline    threads:4    processes:2    dask://localhost:8786    dbos    dbos:sqlite:///jobs.sqlite
"""

from __future__ import annotations

from otolith.errors import Invalid
from otolith.flows.executors import Executor, InlineExecutor, ProcessExecutor, ThreadExecutor
from otolith.flows.remote_executors import DaskExecutor, DbosExecutor
from otolith.shapes import NOTHING, check_argument


def open_executor(text: str, *, slots: int | None = None) -> Executor:
    """Return a new executor; `slots` counts where the text does not say how many.

    Raises:
        Invalid: the text names none.
        MissingExtra: the library that it needs is not installed.
        Unavailable: nobody answers at its address.
    """
    check_argument(text, "executor", str, "a text such as 'threads:4'")
    check_argument(slots, "slots", (int, NOTHING), "a whole number")
    kind, colon, rest = text.partition(":")
    if kind == "dask" and rest.startswith("//") and len(rest) > len("//"):
        return DaskExecutor(f"tcp:{rest}", slots=slots)
    if kind == "dbos" and rest and not rest.isdigit():
        return DbosExecutor(rest, slots=4 if slots is None else slots)
    if bool(colon) == rest.isdigit():
        count = int(rest) if rest else slots
        if kind == "inline" and count in (None, 1):
            return InlineExecutor()
        if kind == "threads":
            return ThreadExecutor(4 if count is None else count)
        if kind == "processes":
            return ProcessExecutor(count)
        if kind == "dbos":
            return DbosExecutor(slots=4 if count is None else count)
    raise Invalid(
        f"there is no executor {text!r}",
        hint="inline, threads:4, processes:2, dask://HOST:PORT, dbos, or dbos:sqlite:///FILE",
    )
