"""What is an edit of the code of a task, and what is not."""

from __future__ import annotations

import builtins
import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from otolith.errors import CodeEdited
from otolith.flows import Flow, FlowTask
from otolith.flows.code_identity import code_text


def add(left, right=0):
    return left + right


def returning(value):
    def inner():
        return value

    return inner


class Adder:
    def __init__(self, number):
        self.number = number
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return self.number


class OtherAdder:
    def __init__(self, number):
        self.number = number
        self.calls = 0

    def __call__(self):
        return self.number + 100


def counting():
    calls = 0

    def count():
        nonlocal calls
        calls += 1
        return calls

    return count


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (partial(add, 1), partial(add, 2)),
        (partial(add, 1), partial(add, 1, right=2)),
        (partial(partial(add, 1), 2), partial(partial(add, 1), 3)),
        (returning(1), returning(2)),
        (returning((1, "a")), returning((1, "b"))),
        (returning(add), returning(returning(1))),
        (returning(lambda: 1), returning(lambda: 2)),
        (lambda number=1: number, lambda number=2: number),
        (Adder(1), Adder(2)),
        (Adder(1), OtherAdder(1)),
        (lambda: {"a", "b"}, lambda: {"a", "c"}),
    ],
)
def test_an_edit_is_seen(before, after):
    assert code_text(before) != code_text(after)
    assert code_text(before) == code_text(before)


def test_what_changes_while_it_runs_is_no_edit():
    seen: list[int] = []
    adder, count = Adder(1), counting()
    noting = returning(seen)
    before = [*map(code_text, (adder, count, noting))]
    adder()
    count()
    seen.append(1)

    assert [*map(code_text, (adder, count, noting))] == before


def test_a_function_may_hold_itself_and_what_is_not_there_yet():
    def again(number):
        return later(number - 1) if number else 0

    text = code_text(again)  # `later` has no value
    later = again
    assert code_text(again) == text + "[('later', 'itself')]"


def test_a_class_that_was_edited_needs_a_decision(state):
    def run(function):
        flow = Flow("f")
        flow.task(function, name="one")
        return state.flow(flow)

    run(Adder(1)).work()
    with pytest.raises(CodeEdited):
        run(OtherAdder(1)).work()
    with pytest.raises(CodeEdited):
        run(Adder(2)).work()
    assert run(Adder(1)).work().status == "done"


PROGRAM = """
from otolith.flows import FlowTask
from otolith.flows.code_identity import code_text
words = frozenset({"tea", "milk", "sugar"})
def closed(word): return lambda: word in words or word
found = [lambda word: word in {"a", "b", "c", "d", "e"}, closed(words), closed(("x", words))]
print([FlowTask("one", function=each).code().hex() for each in found])
"""


def test_a_set_has_no_order_in_code():
    """A constant set is in another order in each process: that of the hashes of its texts."""
    printed = set()
    for seed in range(4):
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        command = [sys.executable, "-c", PROGRAM]
        printed.add(
            subprocess.run(command, env=environment, capture_output=True, check=True).stdout
        )

    assert len(printed) == 1


SLOW = """
import threading
from otolith.flows import Flow

flow = Flow("slow")
begun.set()
go_on.wait(30)


@flow.task
def one():
    return 1
"""


def test_a_task_is_found_while_another_thread_imports_its_module(tmp_path, monkeypatch):
    """Jobs come to the threads of a Dask worker at once, and the first imports their module."""
    begun, go_on, found = threading.Event(), threading.Event(), []
    monkeypatch.setattr(builtins, "begun", begun, raising=False)
    monkeypatch.setattr(builtins, "go_on", go_on, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path(tmp_path, "slow_tasks_of_a_flow.py").write_text(SLOW)

    def load():
        find, _ = FlowTask("one", function=add).__reduce__()
        assert callable(find)
        found.append(find("slow_tasks_of_a_flow", "one").name)

    threads = [threading.Thread(target=load) for _ in range(2)]
    threads[0].start()
    assert begun.wait(30)
    threads[1].start()
    threads[1].join(0.05)  # it fails at once, or waits for the import
    go_on.set()
    for each in threads:
        each.join(30)
    sys.modules.pop("slow_tasks_of_a_flow", None)

    assert found == ["one", "one"]
