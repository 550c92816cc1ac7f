"""A function with a cache has in the next process what was in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from otolith import Disk, Versioned
from otolith.workspace import Runner, Step

Run = Callable[[str], Step]

CACHED = """
import functools
calls = []
@functools.lru_cache({})
def double(x, y=0, **more):
    calls.append(x)
    return [x * 2]
"""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with (
        Versioned(Disk(tmp_path / "agent.db", durability="fast")) as state,
        state.workspace(runner=Runner(sandbox="limits"), folder=tmp_path / "work") as workspace,
    ):

        def run(code: str) -> Step:
            step = workspace.run(code)
            assert step.ok, step.error and step.error.traceback
            return step

        yield run


@pytest.mark.parametrize("settings", ["None", "maxsize=3", "None, typed=True", "3, True"])
def test_what_was_called_is_not_called_again(settings: str, run: Run) -> None:
    run(CACHED.format(settings) + "double(1); double('a', z=3, y=1); double((1, 2), 4)")
    run("double(1), double('a', z=3, y=1), double((1, 2), 4)")
    assert run("calls").value == [1, "a", (1, 2)]
    assert run("double.cache_info().currsize").value == 3


def test_what_was_used_longest_ago_goes_first(run: Run) -> None:
    run(CACHED.format("maxsize=2") + "double(1); double(2); double(1)")
    run("double(3)")
    run("double(1)")
    assert run("calls").value == [1, 2, 3]
    run("double(2)")
    assert run("calls").value == [1, 2, 3, 2]


def test_a_result_is_the_one_that_a_variable_has(run: Run) -> None:
    run(
        CACHED.format("None")
        + "class C: pass\n@functools.cache\ndef one():\n    return C()\nc = one()"
    )
    assert run("one() is c").value is True


def test_to_ask_again_changes_nothing(run: Run) -> None:
    run(CACHED.format("None") + "double(1)")
    assert run("double(1)").changed == ()


def test_a_cache_that_cannot_be_kept_starts_empty(run: Run) -> None:
    code = "import functools, threading\n@functools.cache\ndef lock():\n    return threading.Lock()"
    step = run(code + "\nlock();")
    assert step.lost == {}
    assert run("lock.cache_info().currsize, lock() is lock()").value == (0, True)


def test_a_method_has_its_cache(run: Run) -> None:
    code = (
        "import functools\nclass C:\n    seen = []\n    @functools.lru_cache\n    def f(self, x):\n"
    )
    run(code + "        self.seen.append(x)\n        return x\nc = C(); c.f(3)")
    assert run("c.f(3), c.seen").value == (3, [3])
