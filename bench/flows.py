"""Figures for a reader: the files and functions of everyday calls, and the size of each room.

`python3 dev.py flows` runs each call once, warm, and counts the parts of src/otolith it touches;
then it counts files, lines, and the share of docstrings and comments by room.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any, NamedTuple

import otolith
from otolith.agent import AgentState, Orchestrator, tool
from otolith.statecharts import Chart
from otolith.workspace import Runner
from tests.house.source import PACKAGE, modules

_OURS = str(Path(otolith.__file__).parent)


class Walk(NamedTuple):
    """What a call went through: files, functions, and how often it went on in another file."""

    name: str
    files: int
    functions: int
    jumps: int


def walk(name: str, act: Callable[[], object]) -> Walk:
    """Run a call and note where it goes."""
    seen: dict[CodeType, None] = {}
    jumps = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal jumps
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(_OURS) or code in seen:
            return
        caller = frame.f_back.f_code.co_filename if frame.f_back is not None else ""
        jumps += caller.startswith(_OURS) and caller != code.co_filename
        seen[code] = None

    gc.collect()  # what others left behind is not finalized on the way
    gc.disable()
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
        gc.enable()
    return Walk(name, len({code.co_filename for code in seen}), len(seen), jumps)


def walks(folder: Path) -> Iterator[Walk]:
    """Yield the six flows."""
    yield from _state_flows(folder / "state.db")
    yield from _conversation_flows()
    yield from _step_flows(folder / "work.db")
    yield from _chart_flows()
    yield from _agent_flows()


def _state_flows(path: Path) -> Iterator[Walk]:
    with otolith.open(path) as repo:
        state = repo.session("s")
        state["a"] = {"b": [1]}
        state.commit()

        def append_and_commit() -> None:
            state["a"]["b"].append(9)
            state.commit()

        append_and_commit()
        yield walk('state["a"]["b"].append(9); state.commit()', append_and_commit)
    opened: list[Any] = []
    yield walk("reopen a store", lambda: opened.append(otolith.open(path)))
    with opened[0] as repo:
        state = repo.session("s")
        yield walk('state["a"], first read', lambda: state["a"])


def _conversation_flows() -> Iterator[Walk]:
    state = otolith.open("memory:").session("s")
    for number in range(40):
        state.conversation.user(f"question {number}")
        state.conversation.assistant(f"answer {number}")
    state.commit()
    context = lambda: state.conversation.context(8000, for_="openai")  # noqa: E731
    context()
    yield walk('conversation.context(8000, for_="openai")', context)


def _step_flows(path: Path) -> Iterator[Walk]:
    with otolith.open(path) as repo, _workspace(repo) as work:
        work.run("x = 0")
        yield walk('workspace.run("x = 1"), in the host', lambda: work.run("x = 1"))


@contextmanager
def _workspace(repo: Any) -> Iterator[Any]:
    work = repo.session("s").workspace(runner=Runner(sandbox="limits"))
    try:
        yield work
    finally:
        work.close()


def _chart_flows() -> Iterator[Walk]:
    table = {("red", "go"): "green", ("green", "stop"): "red"}
    chart = Chart.from_table(table, initial="red", name="light")
    state = otolith.open("memory:").session("s")
    machine = state.lifecycle(chart)
    state.commit()
    machine.send("go")
    yield walk('machine.send("stop")', lambda: machine.send("stop"))
    yield walk("then state.commit()", state.commit)


@tool
def add(left: int, right: int) -> int:
    """Add two numbers."""
    return left + right


class _Adding(Orchestrator):
    """Plans, then calls a tool and is done."""

    def step(self, state: AgentState) -> AgentState:
        if state.phase == "planning":
            return state.plan("add").to_executing()
        return state.to_done(f"{self.call('add', left=1, right=2).result}")


def _agent_flows() -> Iterator[Walk]:
    adding = _Adding(otolith.open("memory:"), tools=[add])
    adding.run("add", session="before")
    adding.run("add", session="s", max_steps=1)
    run = lambda: adding.run(session="s")  # noqa: E731
    yield walk("one orchestrator step with a tool call", run)


def main() -> None:
    """Print the table."""
    print(f"{'flow':46} {'files':>6} {'functions':>10} {'jumps':>6}")
    with TemporaryDirectory() as folder:
        for each in walks(Path(folder)):
            print(f"{each.name:46} {each.files:6} {each.functions:10} {each.jumps:6}")
    print(f"\n{'room':46} {'files':>6} {'lines':>10} {'prose':>6}")
    for room, files, lines, prose in rooms():
        print(f"{room:46} {files:6} {lines:10,} {prose / lines:6.1%}")


def rooms() -> list[tuple[str, int, int, int]]:
    """Return files, lines, and lines of docstrings and comments by room, the total last."""
    counts: dict[str, list[int]] = {}
    for module in modules():
        parts = module.path.relative_to(PACKAGE).parts
        for room in (parts[0] if len(parts) > 1 else "(files)", "total"):
            figures = counts.setdefault(room, [0, 0, 0])
            for at, figure in enumerate((1, module.lines, module.prose_lines())):
                figures[at] += figure
    total = counts.pop("total")
    return [(room, *figures) for room, figures in [*sorted(counts.items()), ("total", total)]]  # type: ignore[misc]


if __name__ == "__main__":
    main()
