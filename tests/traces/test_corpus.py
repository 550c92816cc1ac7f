"""The corpus keeps its word: programs end in one state, and `describe` tells near misses apart."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import functools
import io
import itertools
import random
import re
import types
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

from tests.traces.alone import run_alone
from tests.traces.corpus import is_runnable, programs
from tests.traces.likeness import IDENTITY, describe, differences

PROGRAMS = programs()

# ---------------------------------------------------------------- programs


@pytest.mark.long
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_program_fails_where_it_says_and_ends_in_the_same_state_twice(program, tmp_path):
    if not is_runnable(program):
        pytest.skip(f"needs {', '.join(program.needs)}")
    folders = [tmp_path / "once", tmp_path / "twice"]
    for folder in folders:
        folder.mkdir()

    with ThreadPoolExecutor(2) as both:
        once, twice = both.map(lambda folder: run_alone(program, folder), folders)

    assert {number for number, _ in once.errors} == program.raises, once.errors
    assert differences(once.description, twice.description) == {}
    assert once == twice


def test_the_corpus_is_large_and_its_programs_are_sessions():
    assert len(PROGRAMS) >= 14
    assert {p.name: len(p.cells) for p in PROGRAMS if not 8 <= len(p.cells) <= 30} == {}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_what_is_lost_is_used_in_no_other_cell(program):
    for name in program.lost:
        uses = [cell for cell in program.cells if re.search(rf"(?<![\w.'\"]){name}\b", cell)]
        assert len(uses) == 1, name


# ---------------------------------------------------------------- near misses


def _adder(k):
    return lambda n: n + k


def _with_default(k):
    def add(n, k=k):
        return n + k

    return add


def _class(**attributes):
    return type("Sample", (), {"__module__": "__main__", **attributes})


def _frame(**changes):
    return pd.DataFrame({"a": [1.0, np.nan], "b": ["x", "y"]} | changes)


def _circle(size):
    ring: list[object] = [size]
    ring.append(ring)
    return ring


def _drawn(times):
    chance = random.Random(1)
    for _ in range(times):
        chance.random()
    return chance


def _generator(times):
    rng = np.random.default_rng(1)
    rng.random(times)
    return rng


def _readonly(array):
    array.flags.writeable = False
    return array


def _multi(frame):
    return frame.set_index(["a", "b"]).index


Slotted = dataclasses.make_dataclass("Slotted", ["x", "y"], slots=True)
Counted = collections.namedtuple("Counted", "n")  # noqa: PYI024 - a value of the test
STAMPS = pd.date_range("2024-01-01", periods=3)

NEAR_MISSES = {
    "int and bool": (1, True),
    "int and float": (1, 1.0),
    "float and numpy float": (1.0, np.float64(1.0)),
    "float widths": (np.float64(1.0), np.float32(1.0)),
    "the sign of zero": (0.0, -0.0),
    "nan and None": (float("nan"), None),
    "str and bytes": ("a", b"a"),
    "number and digits": ([1], ["1"]),
    "trailing zero of a Decimal": (Decimal("1.0"), Decimal("1.00")),
    "naive and aware": (dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, tzinfo=dt.UTC)),  # noqa: DTZ001
    "list and tuple": ([1], (1,)),
    "nesting": ([[1], 2], [[1, 2]]),
    "tuple and named tuple": ((1,), Counted(1)),
    "set and frozenset": ({1}, frozenset({1})),
    "dict and ordered dict": ({"a": 1}, collections.OrderedDict(a=1)),
    "order of a dict": ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "key True and key 1": ({True: 0}, {1: 0}),
    "default of a defaultdict": (collections.defaultdict(int), collections.defaultdict(list)),
    "length of a deque": (collections.deque([1], 3), collections.deque([1], 4)),
    "a long text": ("x" * 9999 + "a", "x" * 9999 + "b"),
    "deep inside": ([[[[{"a": [1, 2]}]]]], [[[[{"a": [1, 3]}]]]]),
    "inside a circle": (_circle(1), _circle(2)),
    "flags of a pattern": (re.compile("a"), re.compile("a", re.IGNORECASE)),
    "dtype": (np.arange(3), np.arange(3, dtype="int32")),
    "byte order": (np.arange(3, dtype="<i4"), np.arange(3, dtype=">i4")),
    "shape": (np.zeros((2, 3)), np.zeros((3, 2))),
    "where nan is": (np.array([1.0, np.nan, 1.0]), np.array([1.0, 1.0, np.nan])),
    "zero of an array": (np.array([0.0]), np.array([-0.0])),
    "one far element": (np.zeros(9999), np.r_[np.zeros(9998), 1.0]),
    "read only": (np.zeros(2), _readonly(np.zeros(2))),
    "mask": (np.ma.masked_less([1, 2], 2), np.ma.masked_greater([1, 2], 1)),
    "objects in an array": (np.array([[1], 2], object), np.array([(1,), 2], object)),
    "nan in a column": (_frame(), _frame(a=[np.nan, 1.0])),
    "column dtype": (_frame(a=[1, 2]), _frame(a=[1.0, 2.0])),
    "text and object": (_frame(), _frame(b=pd.Series(["x", "y"], dtype=object))),
    "text and string": (_frame(), _frame(b=pd.array(["x", "y"], dtype="string"))),
    "nullable": (_frame(a=[1, 2]), _frame(a=pd.array([1, 2], dtype="Int64"))),
    "missing kind": (_frame(b=["x", None]), _frame(b=pd.array(["x", None], dtype="string"))),
    "index values": (_frame(), _frame().set_axis([0, 2])),
    "index kind": (_frame(), _frame().set_axis(pd.Index([0, 1]))),
    "index name": (_frame(), _frame().rename_axis("n")),
    "name of the columns": (_frame(), _frame().rename_axis("n", axis=1)),
    "order of columns": (_frame(), _frame()[["b", "a"]]),
    "order of rows": (_frame(), _frame()[::-1]),
    "frame and column": (_frame()[["a"]], _frame()["a"]),
    "name of a column": (pd.Series([1], name="a"), pd.Series([1], name="b")),
    "order of categories": (pd.Categorical(["a"], ["a", "b"]), pd.Categorical(["a"], ["b", "a"])),
    "unused level": (_multi(_frame())[:1], _multi(_frame()[:1])),
    "frequency": (STAMPS, STAMPS._with_freq(None)),
    "zone": (STAMPS.tz_localize("UTC"), STAMPS.tz_localize("Europe/Oslo")),
    "resolution": (STAMPS.as_unit("s"), STAMPS.as_unit("ns")),
    "attribute": (types.SimpleNamespace(a=1), types.SimpleNamespace(a=2)),
    "slot": (Slotted(1, 2), Slotted(1, 3)),
    "class attribute": (_class(rate=1), _class(rate=2)),
    "class attribute, seen from an instance": (_class(rate=1)(), _class(rate=2)()),
    "closure": (_adder(1), _adder(2)),
    "default argument": (_with_default(1), _with_default(2)),
    "body": (lambda n: n + 1, lambda n: n + 2),
    "argument names": (lambda n: 1, lambda m: 1),
    "arguments of a partial": (functools.partial(int, base=2), functools.partial(int, base=3)),
    "whose method": ([].append, [1].append),
    "library functions": (np.sin, np.cos),
    "arguments of an error": (ValueError("a"), ValueError("b")),
    "state of Random": (_drawn(1), _drawn(2)),
    "state of a Generator": (_generator(1), _generator(2)),
    "file in memory": (io.StringIO("a"), io.StringIO("b")),
}


@pytest.mark.parametrize("pair", NEAR_MISSES.values(), ids=NEAR_MISSES.keys())
def test_a_near_miss_is_told_apart(pair):
    one, other = pair

    assert describe({"x": one})["x"] != describe({"x": other})["x"]


ALIKE = {
    "sets": ({"b", "a", 9}, {9, "a", "b"}),
    "a list met twice": ([[1]] * 2, [[1], [1]]),
    "arrays of other layout": (np.zeros((2, 3), order="F"), np.zeros((2, 3), order="C")),
    "nan of another sign": (np.array([np.nan]), np.array([-np.nan])),
    "blocks of a frame": (_frame(), pd.concat([_frame()[["a"]], _frame()[["b"]]], axis=1)),
    "circles": (_circle(1), _circle(1)),
    "instances": (_class(a=[1])(), _class(a=[1])()),
    "functions": (_adder([1]), _adder([1])),
    "generators": ((n for n in "a"), (n for n in "b")),
    "iterators": (itertools.count(1), itertools.count(2)),
}


@pytest.mark.parametrize("pair", ALIKE.values(), ids=ALIKE.keys())
def test_equal_content_is_told_alike(pair):
    one, other = pair

    assert describe({"x": one})["x"] == describe({"x": other})["x"]


# ---------------------------------------------------------------- identity


def _shared_cell(*, is_shared):
    def make():
        count = 0

        def add():
            nonlocal count
            count += 1

        return add, lambda: count

    return make() if is_shared else (make()[0], make()[1])


def _aliases():
    part, array, frame, cls = [1], np.arange(6), _frame(), _class()
    owner = types.SimpleNamespace(frame=frame)
    return {
        "two names": ({"a": part, "b": part}, {"a": [1], "b": [1]}),
        "in two dicts": ({"a": {"x": part}, "b": {"y": part}}, {"a": {"x": [1]}, "b": {"y": [1]}}),
        "twice in one list": ({"a": [part, part]}, {"a": [[1], [1]]}),
        "an object's frame": ({"o": owner, "f": frame}, {"o": owner, "f": _frame()}),
        "a view": ({"a": array, "v": array[2:4]}, {"a": array, "v": array[2:4].copy()}),
        "a view elsewhere": (
            {"a": np.zeros(9), "z": (z := np.zeros(9)), "v": z[:2]},
            {"a": np.zeros(9), "z": (z := np.zeros(9)), "v": z[2:4]},
        ),
        "two views": ({"u": array[:4], "v": array[2:]}, {"u": array[:4], "v": array[2:].copy()}),
        "a class": ({"c": cls, "x": cls()}, {"c": cls, "x": _class()()}),
        "a cell": (
            dict(zip("ab", _shared_cell(is_shared=True), strict=True)),
            dict(zip("ab", _shared_cell(is_shared=False), strict=True)),
        ),
        "in a column": (
            {"p": part, "s": pd.Series([part, None])},
            {"p": part, "s": pd.Series([[1], None])},
        ),
        "in a tuple": ({"a": part, "t": (part,)}, {"a": part, "t": ([1],)}),
        "in an attribute of a class": (
            {"c": _class(made=part), "p": part},
            {"c": _class(made=[1]), "p": part},
        ),
    }


@pytest.mark.parametrize("pair", _aliases().values(), ids=_aliases().keys())
def test_a_lost_alias_shows_in_the_identity_and_nowhere_else(pair):
    one, other = map(describe, pair)

    assert list(differences(one, other)) == [IDENTITY]


def test_small_values_have_no_identity():
    name = "one text"

    assert describe({"a": name, "b": name, "c": (name,), "d": [1], "e": [1]})[IDENTITY] == ""


def test_arrays_that_lie_side_by_side_are_not_one():
    both = np.zeros((4, 2))

    assert describe({"left": both[:, 0], "right": both[:, 1]})[IDENTITY] == ""


def test_what_is_lost_takes_its_aliases_along():
    part = [1]
    one = describe({"a": part, "b": part, "gone": {"p": part}})
    other = describe({"a": (copy := [1]), "b": copy})

    assert differences(one, other) != {}
    assert differences(one, other, lost=frozenset({"gone"})) == {}


def test_a_missing_variable_is_a_difference():
    assert differences(describe({"a": 1}), describe({})) == {"a": ("1", None)}


def test_private_names_and_modules_are_not_described():
    assert set(describe({"_a": 1, "np": np, "b": 2})) == {"b", IDENTITY}


def test_a_very_deep_value_has_a_bottom():
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]

    assert "deeper than" in describe({"deep": deep}, fold=10**6)["deep"]


def test_a_web_of_circles_is_told_in_good_time():
    nodes: list[dict[str, object]] = [{"n": n} for n in range(60)]
    for node in nodes:
        node["others"] = nodes

    assert describe({"web": nodes})["web"]
