"""The checker of histories: known verdicts, a brute-force checker, and the histories of Jepsen."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otolith.errors import Invalid
from otolith.testing import (
    UNKNOWN,
    HistoryModel,
    Operation,
    RegisterModel,
    RegisterRead,
    RegisterSwap,
    RegisterWrite,
    check_linearizable,
)

OK, BAD = "linearizable", "not linearizable"


def read(value, called, returned, key=""):
    return Operation("reader", RegisterRead(key), value, called, returned)


def write(value, called, returned=None, key=""):
    return Operation("writer", RegisterWrite(value, key), None, called, returned)


def swap(old, new, output, called, returned=None):
    return Operation("swapper", RegisterSwap(old, new), output, called, returned)


KNOWN = {
    "nothing happened": ([], OK),
    "a read sees the write before it": ([write(1, 1, 2), read(1, 3, 4)], OK),
    "a read misses the write before it": ([write(1, 1, 2), read(None, 3, 4)], BAD),
    "a read beside a write sees the old value": ([write(1, 1, 4), read(None, 2, 3)], OK),
    "a read beside a write sees the new value": ([write(1, 1, 4), read(1, 2, 3)], OK),
    "a value appears and vanishes": ([write(1, 1, 9), read(1, 2, 3), read(None, 4, 5)], BAD),
    "a write without a reply happened": ([write(1, 1), read(1, 8, 9)], OK),
    "a write without a reply never happened": ([write(1, 1), read(None, 8, 9)], OK),
    "a write without a reply happened late": ([write(1, 1), read(None, 2, 3), read(1, 8, 9)], OK),
    "a write without a reply happened twice": (
        [write(1, 1), write(2, 2, 3), read(1, 4, 5), write(3, 6, 7), read(1, 8, 9)],
        BAD,
    ),
    "two equal writes without a reply happened": (
        [write(1, 1), write(1, 1), write(2, 2, 3), read(1, 4, 5), write(3, 6, 7), read(1, 8, 9)],
        OK,
    ),
    "a write happened before its call": ([read(1, 1, 2), write(1, 3)], BAD),
    "two swaps from one value": ([swap(None, 1, True, 1, 9), swap(None, 2, True, 2, 8)], BAD),
    "one of two swaps is refused": (
        [swap(None, 1, True, 1, 9), swap(None, 2, False, 2, 8), read(1, 3, 4)],
        OK,
    ),
    "a swap is refused although nobody was faster": ([swap(None, 1, False, 1, 2)], BAD),
    "a swap without a reply was applied": ([swap(None, 1, None, 1), read(1, 2, 3)], OK),
    "a swap without a reply did not match": (
        [write(2, 1, 2), swap(1, 3, None, 3), read(3, 4, 5)],
        BAD,
    ),
    "keys are independent": ([write(1, 1, 2, "a"), read(None, 3, 4, "b")], OK),
    "one key of several is at fault": (
        [write(1, 1, 2, "a"), read(1, 3, 4, "a"), read(1, 3, 4, "b")],
        BAD,
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_history_gets_its_verdict(name):
    history, outcome = KNOWN[name]
    verdict = check_linearizable(history, RegisterModel())
    assert verdict.outcome == outcome
    assert (verdict.blocked is None) == (outcome == OK)


def test_the_verdict_explains_what_cannot_be_placed():
    wrong = read(3, 6, 7)
    history = [write(1, 1, 2), write(2, 3, 9), read(1, 4, 5), wrong, read(2, 10, 11)]
    verdict = check_linearizable(history, RegisterModel())
    assert verdict.blocked == wrong
    assert verdict.order == (history[0], history[2])
    assert str(wrong) in verdict.reason
    assert "1" in verdict.reason.rpartition("state is one of ")[2]


def test_a_linearizable_history_comes_with_an_order_that_explains_it():
    history = [write(1, 1, 9), read(1, 2, 3), write(2, 4), read(2, 5, 6), read(2, 10, 11)]
    verdict = check_linearizable(history, RegisterModel())
    assert sorted(verdict.order) == sorted(history)
    assert _explains(verdict.order, RegisterModel())


def test_the_search_ends_when_its_time_is_over():
    writers = [write(number, 0, 100 + number) for number in range(40)]
    verdict = check_linearizable(
        [*writers, read("never", 0, 99)], RegisterModel(), timeout_seconds=0.05
    )
    assert verdict.outcome == "undecided"
    assert "time" in verdict.reason


def test_many_lost_writes_of_few_values_are_decided():
    lost = [write(number % 3, number) for number in range(60)]
    seen = [read(number % 3, 100 + number, 100 + number) for number in range(60)]
    assert check_linearizable([*lost, *seen], RegisterModel()).outcome == OK
    assert check_linearizable([*lost, *seen, read(0, 170, 171)], RegisterModel()).outcome == BAD


def test_a_long_history_is_no_deep_recursion():
    history = [write(number, 2 * number, 2 * number + 1) for number in range(5000)]
    assert check_linearizable(history, RegisterModel()).outcome == OK


def test_an_operation_that_returned_before_its_call_is_refused():
    with pytest.raises(Invalid, match="before it was called"):
        check_linearizable([read(1, 2, 1)], RegisterModel())


def test_a_register_takes_its_own_operations_only():
    with pytest.raises(Invalid, match="pop"):
        check_linearizable([Operation("a", "pop", 1, 1, 2)], RegisterModel())


class Push(NamedTuple):
    value: int


class Pop(NamedTuple):
    least: int


class QueueModel:
    """A queue, whose operations look alike as tuples."""

    init = ()

    def key(self, given):
        return None

    def step(self, state, given, output):
        if isinstance(given, Push):
            return True, (*state, given.value)
        if not state:
            return output in (None, UNKNOWN), state
        return output in (state[0], UNKNOWN), state[1:]


@pytest.mark.parametrize(("popped", "outcome"), [(1, OK), (2, BAD)])
def test_a_model_of_ones_own_is_checked_alike(popped, outcome):
    history = [
        Operation("a", Push(1), None, 1, 2),
        Operation("a", Push(2), None, 3, 4),
        Operation("b", Pop(1), None, 5),
        Operation("c", Push(1), None, 5),
        Operation("b", Pop(0), popped, 6, 7),
        Operation("b", Pop(0), 2, 8, 9),
    ]
    if popped == 2:
        history.insert(0, Operation("b", Pop(0), 1, 0, 0.5))
    assert check_linearizable(history, QueueModel()).outcome == outcome


# -------------------- compared with trying every order

_inputs = (
    st.just(RegisterRead())
    | st.integers(0, 2).map(RegisterWrite)
    | st.tuples(st.integers(0, 2), st.integers(0, 2)).map(lambda pair: RegisterSwap(*pair))
)


@st.composite
def _histories(draw: st.DrawFn) -> list[Operation]:
    history = []
    for given_ in draw(st.lists(_inputs, max_size=6)):
        called = draw(st.integers(0, 9))
        length = draw(st.none() | st.integers(0, 5))
        outputs = st.booleans() if isinstance(given_, RegisterSwap) else st.integers(0, 2)
        returned = None if length is None else called + length
        history.append(Operation("p", given_, draw(outputs), called, returned))
    return history


@given(_histories())
def test_it_agrees_with_a_search_through_all_orders(history):
    verdict = check_linearizable(history, RegisterModel(0))
    assert (verdict.outcome == OK) == any(
        _explains(order, RegisterModel(0)) for order in _orders(history)
    )
    if verdict.outcome == OK:
        assert _explains(verdict.order, RegisterModel(0))


def _orders(history: Sequence[Operation]) -> Iterator[tuple[Operation, ...]]:
    returned = [each for each in history if each.returned is not None]
    lost = [each for each in history if each.returned is None]
    for chosen in range(1 << len(lost)):
        used = [each for place, each in enumerate(lost) if chosen >> place & 1]
        yield from permutations([*returned, *used])


def _explains(order: Sequence[Operation], model: HistoryModel) -> bool:
    """Tell whether an order respects time, and gives every answer."""
    state = model.init
    latest = float("-inf")
    for each in order:
        if each.returned is not None and each.returned < latest:
            return False
        latest = max(latest, each.called)
        output = UNKNOWN if each.returned is None else each.output
        is_possible, state = model.step(state, each.input, output)
        if not is_possible:
            return False
    return True


# -------------------- 102 histories of etcd, recorded by Jepsen, with Porcupine's verdicts

# The folder of a clone of github.com/anishathalye/porcupine.
PORCUPINE = os.environ.get("OTOLITH_PORCUPINE", "")
_LINE = re.compile(r"INFO +jepsen\.util - (\d+)\t:(invoke|ok|fail|info)\t:(read|write|cas)\t(.*)")
_VERDICT = re.compile(r"checkJepsen\(t, (\d+), (true|false)\)")


@pytest.mark.skipif(not PORCUPINE, reason="OTOLITH_PORCUPINE does not name a clone of porcupine")
def test_it_agrees_with_the_verdicts_of_porcupine():
    verdicts = _VERDICT.findall(Path(PORCUPINE, "porcupine_test.go").read_text())
    wanted = {int(number): OK if answer == "true" else BAD for number, answer in verdicts}
    found = {
        number: check_linearizable(_jepsen(number), RegisterModel(), timeout_seconds=60).outcome
        for number in wanted
    }
    assert len(wanted) == 102
    assert found == wanted


def _jepsen(number: int) -> list[Operation]:
    """Read a log. `:info` has no answer, and a read that timed out has no effect."""
    history, begun = [], {}
    lines = Path(PORCUPINE, f"test_data/jepsen/etcd_{number:03}.log").read_text().splitlines()
    for time, line in enumerate(lines):
        if not (found := _LINE.fullmatch(line)):
            continue
        process, event, kind, rest = found.groups()
        numbers = [int(digits) for digits in re.findall(r"\d+", rest)]
        if event == "invoke":
            begun[process] = Operation(process, _input(kind, numbers), None, time)
            continue
        operation = begun.pop(process)
        if event == "info" or (event, kind) == ("fail", "read"):
            history.append(operation)
            continue
        output = next(iter(numbers), None) if kind == "read" else event == "ok"
        history.append(operation._replace(output=output, returned=time))
    return [*history, *begun.values()]


def _input(kind: str, numbers: list[int]) -> RegisterRead | RegisterWrite | RegisterSwap:
    if kind == "read":
        return RegisterRead()
    return RegisterWrite(*numbers) if kind == "write" else RegisterSwap(*numbers)
