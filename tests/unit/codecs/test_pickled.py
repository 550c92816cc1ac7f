"""Any object is kept where pickling is allowed; nothing is loaded that this key did not sign."""

from __future__ import annotations

import functools
import os
import pickle
import re
import socket
import sqlite3
import threading
import types
from collections import Counter, OrderedDict, defaultdict, deque
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

import otolith
from otolith.codecs import Codecs, Opaque, are_alike, derive_key
from otolith.codecs.pickles import PickleCodec
from otolith.core import Encoding
from otolith.errors import BadValue, Corrupt, Denied, Invalid, UnknownType, Untrusted
from otolith.types import CHUNK_BYTES, Raw, Tag, Tagged

KEY, OTHER_KEY = b"k" * 32, b"o" * 32
RAN: list[object] = []


def signed(key=KEY, **options):
    return Codecs(pickle="signed", key=lambda: key, **options)


def stored(value, codecs=None):
    """What is lifted again: raw bytes have become lists of chunks."""
    code, data = (codecs or signed()).lower(value)
    return code, _plain(data)


def _plain(data):
    if isinstance(data, Raw):
        return [bytes(chunk) for chunk in data.chunks()]
    return [_plain(part) for part in data] if isinstance(data, list) else data


class Model:
    array: Any

    def __init__(self, **fields):
        self.__dict__.update(fields)

    def __eq__(self, other):
        return type(other) is type(self) and vars(self) == vars(other)

    def __hash__(self):
        return 0

    def shout(self):
        return "!"


class Event(Model):
    """Has the name of a handle, and is none."""


class Slotted:
    __slots__ = ("x",)

    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return self.x == other.x

    def __hash__(self):
        return hash(self.x)


def note(what):
    RAN.append(what)


class Trap:
    """Says when it is made from a pickle."""

    def __reduce__(self):
        return note, ("loaded",)


class Node:
    next: Any = None


class Hostile:
    """Does in `__reduce__` whatever it is told."""

    def __init__(self, act):
        self.act = act

    def __reduce__(self):
        return self.act()


class Fragile:
    def __setstate__(self, state):
        raise KeyError("gone")

    def __getstate__(self):
        return {"x": 1}


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("not even this")


def top_level():
    return 1


# ---------------------------------------------------------------- what goes in comes out


@pytest.mark.parametrize(
    "value",
    [
        Model(a=1, b=[1, 2]),
        Slotted((1, 2)),
        Fraction(1, 3),
        defaultdict(list, {1: [2]}),
        OrderedDict(b=1, a=2),
        Counter("aab"),
        deque([1, 2], maxlen=3),
        re.compile("a+"),
        range(3),
        functools.partial(top_level),
        top_level,
        Model.shout,
        len,
        Model,
        int,
        Event(a=1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_object_of_any_class_comes_back(value):
    code, data = stored(value)

    lifted = signed().lift(code, data)

    assert code == Tag.PICKLE
    assert data[0] == f"{type(value).__module__}:{type(value).__qualname__}"
    if isinstance(value, functools.partial):
        assert lifted.func is value.func
    else:
        assert lifted == value


def test_an_error_comes_back_with_what_it_says():
    lifted = signed().lift(*stored(ValueError("no", 1)))

    assert (type(lifted), lifted.args) == (ValueError, ("no", 1))


def test_what_another_codec_keeps_is_not_pickled():
    assert signed().lower((1, 2)).code == Tag.TUPLE


def test_long_buffers_lie_beside_the_pickle_and_are_not_copied():
    value = Model(array=np.arange(50_000.0), small=np.arange(3))
    _, data = signed().lower(value)

    assert [raw.view.nbytes for raw in data[3]] == [400_000]
    assert data[2].view.nbytes < 2000
    value.array[0] = 7.0
    assert bytes(data[3][0].view[:8]) == value.array[:1].tobytes()


def test_an_array_inside_an_object_can_be_written_to_if_it_could_before():
    free, frozen = np.arange(5000.0), np.arange(5000.0)
    frozen.flags.writeable = False
    small = np.arange(3)

    lifted = signed().lift(*stored(Model(free=free, frozen=frozen, small=small)))

    writeable = {name: array.flags.writeable for name, array in vars(lifted).items()}
    assert writeable == {"free": True, "frozen": False, "small": True}
    assert (lifted.free == free).all()


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_order_of_an_array_survives(order):
    array = np.asarray(np.arange(10_000.0).reshape(100, 100), order=order)

    lifted = signed().lift(*stored(Model(array=array)))

    assert (lifted.array == array).all()
    assert lifted.array.flags.f_contiguous == (order == "F")


def test_a_change_in_one_place_of_a_long_buffer_stores_little():
    repo = otolith.open("memory:", codecs=signed())
    state = repo.session("a")
    value = Model(array=np.random.default_rng(1).random(500_000))
    state["m"] = value
    state.commit("before")
    before = repo.store.usage().stored_bytes
    value.array[250_000] = 0.5
    state["m"] = value
    state.commit("after")

    assert repo.store.usage().stored_bytes - before < 3 * CHUNK_BYTES
    assert state["m"].array[250_000] == 0.5


@pytest.mark.parametrize(
    "value",
    [
        Model(names={"a", "bb", "ccc"}, nested=[Model(x=1)] * 3, array=np.arange(2000.0)),
        defaultdict(set, a={"x", "y"}),
        deque(range(10)),
        Model(generator=np.random.default_rng(1)),
        Model(cells={(each, str(each)): {str(each)} for each in range(100)}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_unchanged_object_gives_the_same_bytes_again(value):
    codecs = signed()
    fresh = codecs.lift(*stored(value))

    assert stored(value) == stored(value)
    assert stored(fresh) == stored(fresh)


def test_one_object_in_two_places_of_a_value_is_still_one():
    shared = [1]
    lifted = signed().lift(*stored(Model(one=shared, two=shared)))

    assert lifted.one is lifted.two


# ---------------------------------------------------------------- leave


@pytest.mark.parametrize("word", ["always", "Signed", "", None, True])
def test_there_are_two_words_for_leave(word):
    with pytest.raises(Invalid, match="pickle="):
        Codecs(pickle=word, key=lambda: KEY)


def test_signing_needs_a_key():
    with pytest.raises(Invalid, match="needs a key"):
        Codecs(pickle="signed")


@pytest.mark.parametrize("key", [b"", b"short", "k" * 32, bytearray(32), b"k" * 33])
def test_a_key_is_32_bytes(key):
    with pytest.raises(Invalid, match="32 bytes") as raised:
        signed(key).lower(Model())

    assert "short" not in str(raised.value)
    with pytest.raises(Invalid, match="32 bytes"):
        derive_key(key, b"repo")


def test_the_key_is_asked_for_once_and_not_before_it_is_needed():
    asked: list[int] = []

    def key():
        asked.append(1)
        return KEY

    codecs = Codecs(pickle="signed", key=key)
    codecs.lower((1, 2))
    assert asked == []

    codecs.lower(Model())
    codecs.lower(Fraction(1, 2))

    assert asked == [1]


def test_without_leave_an_object_is_refused_and_leave_is_named():
    with pytest.raises(BadValue, match="cannot store a") as raised:
        Codecs().lower(Model())

    assert 'pickle="signed"' in raised.value.hint
    assert "dataclass" in raised.value.hint


@pytest.mark.parametrize("value", [(each for each in ""), types, memoryview(b"")])
def test_leave_is_not_named_where_it_would_not_help(value):
    with pytest.raises(BadValue) as raised:
        Codecs().lower(value)

    assert "pickle" not in raised.value.hint


def test_without_leave_nothing_is_loaded():
    RAN.clear()

    with pytest.raises(Denied, match="test_pickled:Trap is stored here") as raised:
        Codecs().lift(*stored(Trap()))

    assert not isinstance(raised.value, Untrusted)
    assert RAN == []


@pytest.mark.parametrize("codecs", [Codecs(opaque=True), signed(OTHER_KEY, opaque=True)])
def test_a_tool_carries_what_it_may_not_load(codecs):
    RAN.clear()
    code, data = stored(Trap())

    lifted = codecs.lift(code, data)

    assert isinstance(lifted, Opaque)
    assert lifted.type_name.endswith("test_pickled:Trap")
    assert lifted.is_pickled
    assert lifted.size_bytes == 32 + sum(map(len, data[2]))
    assert repr(lifted).endswith("bytes)")
    assert codecs.lower(lifted) == Tagged(code, data)
    assert RAN == []


# ---------------------------------------------------------------- signatures


def test_what_another_key_signed_is_not_loaded():
    RAN.clear()

    with pytest.raises(Untrusted, match="test_pickled:Trap was signed with another key") as raised:
        signed(OTHER_KEY).lift(*stored(Trap()))

    assert "opaque=True" in raised.value.hint
    assert RAN == []


def test_what_the_key_signed_is_loaded():
    RAN.clear()

    signed().lift(*stored(Trap()))

    assert RAN == ["loaded"]


def test_each_repo_has_a_key_of_its_own():
    keys = {derive_key(secret, repo) for secret in (KEY, OTHER_KEY) for repo in (b"one", b"two")}

    assert len(keys) == 4
    assert derive_key(KEY, b"one") == derive_key(KEY, b"one")
    assert {len(key) for key in keys} == {32}


BIG = stored(Model(trap=Trap(), one=np.arange(1000.0), two=np.zeros(10_000)))


@given(st.data())
def test_no_altered_byte_is_ever_loaded(data):
    code, kept = BIG
    which = data.draw(st.sampled_from(_places(kept)))
    old = _at(kept, which)
    at = data.draw(st.integers(0, len(old) - 1))
    new = data.draw(st.integers(0, 255).filter(lambda byte: byte != _byte(old, at)))
    RAN.clear()

    with pytest.raises((Untrusted, Corrupt)):
        signed().lift(code, _with(kept, which, _replaced(old, at, new)))

    assert RAN == []


@given(st.data())
def test_no_other_cut_of_the_same_bytes_is_loaded(data):
    code, (name, signature, head, buffers) = BIG
    whole = b"".join([*head, *(chunk for chunks in buffers for chunk in chunks)])
    cuts = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1), min_size=2, max_size=4)))
    pieces = [
        [whole[start:stop]] for start, stop in zip([0, *cuts], [*cuts, len(whole)], strict=True)
    ]
    if [pieces[0], pieces[1:]] == [head, buffers]:
        return
    RAN.clear()

    with pytest.raises((Untrusted, Corrupt)):
        signed().lift(code, [name, signature, pieces[0], pieces[1:]])

    assert RAN == []


@pytest.mark.parametrize(
    "bend",
    [
        lambda name, signature, head, buffers: [name, signature, head],
        lambda name, signature, head, buffers: [name, signature[:-1], head, buffers],
        lambda name, signature, head, buffers: [name, signature, [], buffers],
        lambda name, signature, head, buffers: [name, signature, [*head, b""], buffers],
        lambda name, signature, head, buffers: [name, signature, [b"".join(head), b"x"], buffers],
        lambda name, signature, head, buffers: [name, signature, [str(head)], buffers],
        lambda name, signature, head, buffers: [name, signature, head, [b"x"]],
        lambda name, signature, head, buffers: [None, signature, head, buffers],
        lambda name, signature, head, buffers: b"".join(head),
    ],
)
def test_what_does_not_have_the_form_is_corrupt(bend):
    RAN.clear()
    code, data = stored(Trap())

    with pytest.raises(Corrupt):
        signed().lift(code, bend(*data))

    assert RAN == []


def test_the_signature_is_what_the_format_says():
    name, signature, head, buffers = BIG[1]
    pieces = [name.encode(), b"".join(head), *(b"".join(chunks) for chunks in buffers)]
    said = b"otolith pickle 1" + b"".join(len(p).to_bytes(8, "big") + p for p in pieces)
    context = "otolith 2026-11 key that signs the pickles of one repo"

    assert blake3(said, key=KEY).digest() == signature
    assert (
        derive_key(KEY, b"12345678")
        == blake3(KEY + b"12345678", derive_key_context=context).digest()
    )


def test_the_key_is_in_no_repr_and_no_error():
    codec = PickleCodec(lambda: b"a very secret sequence of bytes!")
    code, data = signed().lower(Model())
    with pytest.raises(Untrusted) as raised:
        codec.lift(code, _plain(data))

    assert "secret" not in repr(codec) + repr(vars(raised.value)) + str(raised.value)


# ---------------------------------------------------------------- what cannot be kept


def _again():
    return Hostile, (Hostile(_again),)


def _raise(error):
    raise error


CHANGING: dict[int, object] = {n: n for n in range(10)}


class Changer:
    def __reduce__(self):
        CHANGING[len(CHANGING)] = 0
        return int, ()


@pytest.mark.parametrize(
    ("value", "says", "way_out"),
    [
        (lambda: 1, "lambda", "top level"),
        (type("Local", (), {})(), "Local", "register"),
        (type("Local", (), {}), "Local", "top level"),
        ((each for each in ""), "generator", "store the result"),
        (threading.Lock(), "lock", "store the result"),
        (types, "module", "name"),
        (memoryview(b"x"), "memoryview", "bytes(...)"),
        (sqlite3.connect(":memory:").cursor(), "Cursor", "store the result"),
        (Model(lock=threading.Lock()), "lock", "__getstate__"),
        (Hostile(lambda: _raise(ZeroDivisionError("oops"))), "oops", "register"),
        (Hostile(lambda: _raise(Mute())), "Mute", "register"),
        (Hostile(lambda: 5), "__reduce__", "register"),
        (Hostile(lambda: (1, 2, 3)), "callable", "register"),
        (Hostile(lambda: ()), "tuple", "register"),
        (Hostile(_again), "recursion", "nested too deeply"),
        (Hostile(lambda: _raise(RecursionError())), "Recursion", "nested too deeply"),
        (Hostile(lambda: _raise(MemoryError())), "MemoryError", "register"),
        (Hostile(lambda: _raise(ValueError("x" * 5000))), "xxx", "register"),
        (Model(buffer=pickle.PickleBuffer(memoryview(bytes(90))[::2])), "contiguous", "register"),
    ],
    ids=range(19),
)
def test_what_cannot_be_pickled_is_refused_with_the_reason_and_the_way_out(value, says, way_out):
    with pytest.raises(BadValue, match="cannot store a") as raised:
        signed().lower(value)

    assert says in raised.value.message
    assert way_out in raised.value.hint
    assert type(value).__qualname__ in raised.value.message
    assert len(raised.value.message) < 500
    assert raised.value.__cause__ is not None


def test_an_object_that_changes_while_it_is_pickled_is_refused():
    CHANGING[0] = Changer()

    with pytest.raises(BadValue, match="changed size") as raised:
        signed().lower(Model(cells=CHANGING))

    assert "concurrently" in raised.value.hint


def test_a_chain_that_is_too_long_is_refused_and_nothing_crashes():
    first: Any = Node()
    last = first
    for _ in range(100_000):
        last.next = Node()
        last = last.next

    with pytest.raises(BadValue, match="Node"):
        signed().lower(first)

    while first.next is not None:  # let go of them one by one
        first = first.next


def test_a_socket_and_a_file_are_refused(tmp_path):
    with socket.socket() as one, (tmp_path / "x").open("w") as other:
        for handle in (one, other):
            with pytest.raises(BadValue) as raised:
                signed().lower(handle)
            assert "store the result" in raised.value.hint


def test_a_state_does_not_hold_the_handles_of_otolith():
    repo = otolith.open("memory:")
    state = repo.session("a")
    state["list"] = [1]

    for handle in (repo, state, state.list("list"), signed()):
        with pytest.raises(BadValue) as raised:
            signed().lower(handle)
        assert "not a handle" in raised.value.hint


def test_an_error_names_the_place_in_the_value():
    with pytest.raises(BadValue, match=r"at a/0: cannot store a builtins\.function"):
        Encoding(signed()).encode({"a": [lambda: 1]})


# ---------------------------------------------------------------- what cannot be loaded


def test_a_module_that_is_gone_is_an_unknown_type(monkeypatch):
    monkeypatch.setitem(globals(), "Passing", type("Passing", (), {"__module__": __name__}))
    kept = stored(globals()["Passing"]())
    monkeypatch.delitem(globals(), "Passing")

    with pytest.raises(UnknownType, match="test_pickled:Passing could not be loaded") as raised:
        signed().lift(*kept)

    assert isinstance(raised.value.__cause__, AttributeError)


def test_an_error_in_setstate_is_an_unknown_type():
    with pytest.raises(UnknownType, match="KeyError: 'gone'"):
        signed().lift(*stored(Fragile()))


def test_a_tool_carries_what_could_not_be_loaded():
    assert isinstance(signed(opaque=True).lift(*stored(Fragile())), Opaque)


# ---------------------------------------------------------------- through a store


def test_a_repo_reopened_by_its_user_gives_the_object_back_and_nobody_else_does(
    tmp_path, monkeypatch
):
    place = tmp_path / "agent.db"
    monkeypatch.setenv("OTOLITH_KEY", os.urandom(32).hex())
    with otolith.open(place, pickle="signed") as repo:
        branch = repo.session("a")
        branch["m"] = Model(a=[1, 2])
        branch.commit("kept")
    with otolith.open(place, pickle="signed") as repo:
        assert repo.session("a")["m"] == Model(a=[1, 2])

    monkeypatch.setenv("OTOLITH_KEY", os.urandom(32).hex())
    with otolith.open(place, pickle="signed") as repo, pytest.raises(Untrusted):
        repo.session("a")["m"]


def test_a_pickle_of_one_repo_is_foreign_in_another(tmp_path, monkeypatch):
    monkeypatch.setenv("OTOLITH_KEY", "00" * 32)
    with otolith.open(tmp_path / "one.db", pickle="signed") as repo:
        carried = Opaque(Tagged(*stored(Model(), repo.encoding.codec)))
    with otolith.open(tmp_path / "two.db", codecs=Codecs(opaque=True)) as repo:
        state = repo.session("a")
        state["m"] = carried
        state.commit("planted")

    with otolith.open(tmp_path / "two.db", pickle="signed") as repo, pytest.raises(Untrusted):
        repo.session("a")["m"]


def test_open_takes_codecs_or_leave_not_both():
    with pytest.raises(Invalid, match="both given"):
        otolith.open("memory:", codecs=Codecs(), pickle="never")
    with pytest.raises(Invalid, match="pickle="):
        otolith.open("memory:", pickle="always")  # type: ignore[arg-type]


def _byte(old, at):
    return old[at] if isinstance(old, bytes) else ord(old[at])


def _replaced(old, at, new):
    put = bytes((new,)) if isinstance(old, bytes) else chr(new)
    return old[:at] + put + old[at + 1 :]


def _places(data, here=()):
    if isinstance(data, list):
        return [place for at, part in enumerate(data) for place in _places(part, (*here, at))]
    return [here]


def _at(data, place):
    return functools.reduce(lambda part, at: part[at], place, data)


def _with(data, place, new):
    if not place:
        return new
    first, *rest = place
    return [*data[:first], _with(data[first], rest, new), *data[first + 1 :]]


# Values that are alike, whichever objects in them are one


class Held:
    def __init__(self, part: object = None) -> None:
        self.part = part


def _in_itself(copies: int) -> dict[str, object]:
    """Return a dict with an object in it that leads back to it, after some copies of both."""
    first: dict[str, object] = {"n": 1}
    last = first
    for _ in range(copies):
        after: dict[str, object] = {"n": 1}
        last["held"] = Held([after])
        last = after
    last["held"] = Held([first])
    return first


def test_a_circle_is_like_a_longer_one_with_the_same_content():
    assert are_alike(_in_itself(0), _in_itself(3))


def _text() -> str:
    return f"text{len([])}"


ALIKE = [
    ([(one := [1]), one], [[1], [1]]),
    ({"a": _text(), "b": _text()}, dict.fromkeys("ab", _text())),
    ({1, 33, "a"}, {"a", 33, 1}),
    (Held([Held((1, "x"))]), Held([Held((1, "x"))])),
    (deque([bytearray(b"a"), b"a" * 100]), deque([bytearray(b"a"), b"a" * 100])),
    (np.arange(3.0), np.arange(3.0)),
]
UNLIKE = [
    ([1], [2]),
    ([1], (1,)),
    ([1], [1, 1]),
    ([1], [True]),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    (Held([Held("x")]), Held([Held("y")])),
    (deque([b"a"]), deque([b"b"])),
    (Held(deque([bytearray(b"a")])), Held(deque([bytearray(b"b")]))),
    (np.arange(3.0), np.arange(1, 4.0)),
    ({1}, frozenset({1})),
    (Held(open), Held(print)),
]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_values_with_equal_content_are_alike(one, other):
    assert are_alike(one, other)


@pytest.mark.parametrize(("one", "other"), UNLIKE)
def test_values_that_differ_anywhere_are_not_alike(one, other):
    assert not are_alike(one, other)


def test_circles_that_differ_far_inside_are_not_alike():
    other = _in_itself(3)
    other["held"].part[0]["held"].part[0]["n"] = 2  # type: ignore[attr-defined]
    assert not are_alike(_in_itself(3), other)


def test_what_cannot_be_pickled_is_like_nothing():
    assert not are_alike([open], [lambda: 1])
    assert not are_alike(Held(lambda: 1), Held(lambda: 1))
