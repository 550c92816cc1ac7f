"""Values as JSON lose nothing, and as one line they fit."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otolith.cli.format.values import from_json, one_line, to_json
from otolith.codecs import Lost, Opaque, identical
from otolith.errors import BadValue
from otolith.types import Tag, Tagged

VALUES = [
    None,
    True,
    1 << 80,
    -0.0,
    float("nan"),
    float("-inf"),
    "text",
    b"\x00\xff",
    bytearray(b"x"),
    (1, (2,)),
    {1, 2},
    frozenset({"a"}),
    {1: "one", (2, 3): "pair"},
    {"$type": "not ours"},
    datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
    date(2026, 1, 2),
    time(3, 4, 5),
    timedelta(days=-1, microseconds=1),
    timedelta(days=999_999_999),
    Decimal("1.10"),
    UUID(int=7),
    Path("a/b"),
    complex(1.5, float("inf")),
    [{"deep": [{"deeper": (b"",)}]}],
]

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda parts: st.lists(parts) | st.dictionaries(st.text(), parts) | st.tuples(parts),
)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_json_loses_nothing(value):
    assert identical(from_json(json.loads(json.dumps(to_json(value)))), value)


@given(PLAIN)
def test_json_loses_nothing_of_any_plain_value(value):
    assert identical(from_json(json.loads(json.dumps(to_json(value)))), value)


def test_a_class_of_the_users_is_shown_with_its_name():
    order = Opaque(Tagged(Tag.MODEL, ["shop:Order", 2, {"id": 7}]))

    assert to_json(order) == {"$type": "shop:Order", "version": 2, "value": {"id": 7}}
    assert one_line(order) == "Order({id: 7})"


def test_a_pickle_is_shown_by_its_type_and_size():
    model = Opaque(Tagged(Tag.PICKLE, ["shop:Model", b"s" * 32, [b"x" * 1000], [[b"y" * 202]]]))

    assert to_json(model) == {"$type": "pickle", "value": "shop:Model", "bytes": 1234}
    assert one_line([model]) == "[<pickled shop.Model, 1,234 bytes>]"


def test_what_was_lost_is_shown_with_the_reason():
    lost = Lost("builtins:generator", "it cannot be stored", "store the result")

    assert to_json(lost) == {
        "$type": "lost",
        "value": "builtins:generator",
        "why": "it cannot be stored",
        "hint": "store the result",
    }
    assert one_line(lost) == "<lost: generator, it cannot be stored>"


@pytest.mark.parametrize(
    "value",
    [
        Opaque(Tagged(Tag.PICKLE, ["shop:\x1b[2JModel", b"", [b"x"], []])),
        Opaque(Tagged(Tag.MODEL, ["shop:\x1b[2JModel", 1, {}])),
        Lost("\x1b[2J", "\r\n\x07", ""),
    ],
)
def test_the_names_of_types_do_not_reach_the_terminal_raw(value):
    assert one_line(value).isprintable()


@pytest.mark.parametrize(
    "typed",
    [
        {"$type": "shop:Order", "value": {}},
        {"$type": 5, "value": {}},
        {"$type": "bytes", "value": "not base64"},
        {"$type": "uuid"},
        {"$type": "dict", "value": [[[], 1]]},
        {"$type": "decimal", "value": "x"},
        {"$type": "datetime", "value": "2026-01-01", "zone": "Nowhere/At all"},
    ],
    ids=str,
)
def test_what_no_value_stands_for_is_refused(typed):
    with pytest.raises(BadValue):
        from_json(typed)


@given(PLAIN, st.integers(min_value=5, max_value=100))
def test_one_line_is_one_line_of_the_length_asked_for(value, limit):
    line = one_line(value, limit)

    assert len(line) <= limit
    assert line.isprintable()


def test_one_line_reads_no_more_of_a_long_value_than_it_shows():
    class Endless(list[int]):
        def __iter__(self):
            return iter(int, 1)

    assert one_line(Endless(), 20).endswith("…")
