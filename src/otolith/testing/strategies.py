"""Hypothesis strategies for what a state can hold: values of every kind, their keys, and paths.

scalars, keys, plain_values     what the core keeps by itself
moments, numbers, file_paths    what codecs lower, by kind
rich_values                     all of it, nested
paths                           where in a state a value is

They include what codecs get wrong first: NaN and infinities, folds and named zones, texts with lone
surrogates, integers beyond 64 bits, keys that are equal and differ in type. All of them need only
the standard library.
"""

from __future__ import annotations

from datetime import date, timedelta, timezone, tzinfo
from decimal import Decimal
from functools import cache
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo, available_timezones

from hypothesis import strategies as st

Values: TypeAlias = st.SearchStrategy[Any]

WORD_INTS = st.integers(-(2**63), 2**64 - 1)
BIG_INTS = st.one_of(st.integers(min_value=2**64), st.integers(max_value=-(2**63) - 1))
TEXTS = st.text()
BROKEN_TEXTS = st.text(st.characters(categories=["Cs", "L", "N"]), min_size=1).filter(
    lambda text: any("\ud800" <= letter <= "\udfff" for letter in text)
)


def scalars() -> Values:
    """Plain values without parts."""
    return st.one_of(
        st.none(), st.booleans(), WORD_INTS, st.floats(), TEXTS, st.binary(max_size=40)
    )


def keys() -> Values:
    """Plain keys of a dict; no NaN, of which a dict can hold two that are stored alike."""
    return st.one_of(
        st.none(),
        st.booleans(),
        WORD_INTS,
        st.floats(allow_nan=False),
        TEXTS,
        st.binary(max_size=20),
    )


def plain_values(*, max_leaves: int = 12) -> Values:
    """Whatever the core keeps by itself, nested."""
    return st.recursive(
        scalars(),
        lambda parts: st.lists(parts, max_size=5) | st.dictionaries(keys(), parts, max_size=5),
        max_leaves=max_leaves,
    )


def numbers() -> Values:
    """Numbers beyond plain ones: big, decimal, complex."""
    digits = st.lists(st.integers(0, 9), min_size=1, max_size=40).map(tuple)
    exponents = st.integers(-6000, 6000) | st.sampled_from(["n", "N", "F"])
    decimals = st.builds(lambda *parts: Decimal(parts), st.integers(0, 1), digits, exponents)
    return st.one_of(BIG_INTS, decimals, st.complex_numbers(allow_nan=True))


def zones() -> st.SearchStrategy[tzinfo | None]:
    """No zone, a fixed offset with or without a name, or a zone of this machine's database."""
    day = timedelta(days=1) - timedelta(microseconds=1)
    offsets = st.timedeltas(-day, day)
    fixed = st.builds(timezone, offsets) | st.builds(timezone, offsets, st.text(max_size=8))
    known = _zones_of_this_machine()
    named = st.sampled_from(known).map(ZoneInfo) if known else st.nothing()
    return st.none() | fixed | named


@cache
def _zones_of_this_machine() -> tuple[str, ...]:
    """Return the names of all zones, in a fixed order; listing them is slow."""
    return tuple(sorted(available_timezones()))


def moments() -> Values:
    """Datetimes and times with and without zones and folds, dates, timedeltas."""
    folds = st.integers(0, 1)
    return st.one_of(
        st.builds(_placed, st.datetimes(), zones(), folds),
        st.builds(_placed, st.times(), zones(), folds),
        st.dates(date.min, date.max),
        st.timedeltas(),
    )


def _placed(clock: Any, zone: tzinfo | None, fold: int) -> Any:
    """Return a datetime or time in a zone, with its fold."""
    return clock.replace(tzinfo=zone, fold=fold)


def file_paths() -> st.SearchStrategy[PurePath]:
    """Paths of files, of both flavours, pure and of this machine."""
    part = st.text(st.characters(codec="ascii", exclude_characters="\0:"), max_size=6)
    kinds = st.sampled_from([PurePosixPath, PureWindowsPath, Path])
    return st.builds(lambda kind, parts: kind(*parts), kinds, st.lists(part, max_size=4))


def rich_keys() -> Values:
    """Keys of every kind, including tuples and frozensets of such."""
    simple = st.one_of(
        keys(), BIG_INTS, BROKEN_TEXTS, st.uuids(), st.dates(), st.timedeltas(), file_paths()
    )
    return st.recursive(
        simple,
        lambda parts: st.lists(parts, max_size=3).map(tuple) | st.frozensets(parts, max_size=3),
        max_leaves=4,
    )


def rich_values(*, max_leaves: int = 12) -> Values:
    """Values of every kind that needs no class of one's own, nested."""
    leaves = st.one_of(
        scalars(),
        BROKEN_TEXTS,
        numbers(),
        moments(),
        file_paths(),
        st.uuids(),
        st.binary(max_size=20).map(bytearray),
        st.sets(rich_keys(), max_size=4),
        rich_keys(),
    )
    return st.recursive(leaves, _nested, max_leaves=max_leaves)


def _nested(parts: Values) -> Values:
    """Return a strategy for containers of every kind around parts."""
    return st.one_of(
        st.lists(parts, max_size=4),
        st.lists(parts, max_size=4).map(tuple),
        st.dictionaries(rich_keys(), parts, max_size=4),
    )


def paths() -> st.SearchStrategy[str]:
    """Paths in a state: names joined by "/", none of which starts with a dot."""
    letters = st.characters(codec="utf-8", exclude_characters="/\0")
    name = st.text(letters, min_size=1, max_size=8).filter(lambda text: text[0] != ".")
    return st.lists(name, min_size=1, max_size=4).map("/".join)
