"""Dates, times and spans come back with the zone, the name and the fold they had."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest

from otolith.codecs import Codecs, Opaque, identical
from otolith.errors import BadValue, Corrupt, UnknownType
from otolith.testing import codec_contract
from otolith.types import Tag

CODECS = Codecs()
PARIS = ZoneInfo("Europe/Paris")
ODD = timezone(timedelta(hours=-4, seconds=7, microseconds=3))
NAMED = timezone(timedelta(hours=1), "CET")
ENDS = datetime.min, datetime.max  # noqa: DTZ901


@pytest.mark.parametrize("zone", [None, UTC, ODD, NAMED, timezone(timedelta(0), "UTC"), PARIS])
@pytest.mark.parametrize("fold", [0, 1])
@pytest.mark.parametrize("clock", [*ENDS, datetime(2024, 10, 27, 2, 30), time(23, 59, 59, 7)])  # noqa: DTZ001
def test_a_clock_keeps_its_zone_and_fold(clock, zone, fold):
    value = clock.replace(tzinfo=zone, fold=fold)

    assert identical(codec_contract.walk_up(codec_contract.walk_down(value, CODECS), CODECS), value)


@pytest.mark.parametrize(
    "value",
    [date.min, date.max, timedelta.min, timedelta.max, timedelta.resolution, -timedelta.resolution],
)
def test_dates_and_spans_keep_their_ends(value):
    assert identical(codec_contract.walk_up(codec_contract.walk_down(value, CODECS), CODECS), value)


def test_the_same_instant_in_two_zones_is_two_values():
    here = datetime(2024, 1, 1, 12, tzinfo=UTC)

    assert CODECS.lower(here) != CODECS.lower(here.astimezone(PARIS))


def test_the_name_of_an_offset_is_part_of_it():
    unnamed = timezone(timedelta(hours=1))

    assert CODECS.lower(time(1, tzinfo=NAMED)) != CODECS.lower(time(1, tzinfo=unnamed))


def test_a_naive_datetime_is_one_number():
    assert CODECS.lower(datetime(1970, 1, 2)).data == 86_400_000_000  # noqa: DTZ001


class _Own(tzinfo):
    def utcoffset(self, dt):
        return timedelta(0)

    dst = tzname = utcoffset


@pytest.mark.parametrize("value", [time(1, tzinfo=_Own()), datetime(2024, 1, 1, tzinfo=_Own())])
def test_a_zone_of_another_kind_is_refused_with_the_way_out(value):
    with pytest.raises(BadValue, match="_Own") as raised:
        CODECS.lower(value)

    assert "ZoneInfo" in raised.value.hint


def test_a_subclass_of_datetime_is_not_flattened():
    stamp = type("Stamp", (datetime,), {})

    with pytest.raises(BadValue):
        CODECS.lower(stamp(2024, 1, 1))


@pytest.mark.parametrize(
    "key", ["Mars/Olympus", "../../etc/passwd", "/etc/passwd", "Europe", "\0", ""]
)
def test_a_zone_that_is_not_here_is_unknown(key):
    with pytest.raises(UnknownType, match="time zone") as raised:
        CODECS.lift(Tag.DATETIME, [0, 0, key])

    assert "tzdata" in raised.value.hint


def test_a_tool_carries_a_datetime_of_an_unknown_zone():
    tool = Codecs(opaque=True)
    lifted = tool.lift(Tag.DATETIME, [0, 0, "Mars/Olympus"])

    assert isinstance(lifted, Opaque)
    assert lifted.type_name == "datetime"
    assert tool.lower(lifted) == (Tag.DATETIME, [0, 0, "Mars/Olympus"])


@pytest.mark.parametrize(
    ("code", "data"),
    [
        (Tag.DATE, 0),
        (Tag.DATE, date.max.toordinal() + 1),
        (Tag.DATE, True),
        (Tag.DATE, "2024-01-01"),
        (Tag.TIMEDELTA, [0, 86_400, 0]),
        (Tag.TIMEDELTA, [0, -1, 0]),
        (Tag.TIMEDELTA, [0, 0, 1_000_000]),
        (Tag.TIMEDELTA, [0, 1, -1]),
        (Tag.TIMEDELTA, [1_000_000_000, 0, 0]),
        (Tag.TIMEDELTA, [0, 0]),
        (Tag.TIMEDELTA, [0.0, 0, 0]),
        (Tag.TIME, -1),
        (Tag.TIME, 86_400_000_000),
        (Tag.TIME, [0, 0, None]),
        (Tag.TIME, [0, 2, None]),
        (Tag.TIME, [0, 1]),
        (Tag.DATETIME, 2**63),
        (Tag.DATETIME, -(2**63)),
        (Tag.DATETIME, 10**30),
        (Tag.DATETIME, 1.5),
        (Tag.DATETIME, [0, 0, None]),
        (Tag.DATETIME, [0, 0, 86_400_000_000]),
        (Tag.DATETIME, [0, 0, [0]]),
        (Tag.DATETIME, [0, 0, [0, None]]),
        (Tag.DATETIME, [0, 0, 1.0]),
    ],
    ids=repr,
)
def test_data_in_another_form_is_corrupt(code, data):
    with pytest.raises(Corrupt):
        CODECS.lift(code, data)
