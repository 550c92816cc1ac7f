"""The trees keep their laws: shape from content alone, diffs that equal brute force."""

from __future__ import annotations

import random
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otolith.codecs import Codecs
from otolith.core.trees.blob import Blob
from otolith.core.trees.cells import Cells
from otolith.core.trees.encoding import Encoding
from otolith.core.trees.layout import LIST, Link
from otolith.core.trees.maps import MapTree
from otolith.core.trees.objects import Buffer, Objects
from otolith.core.trees.sequence import Sequence
from otolith.stores import MemoryStore

SALT = 7


def buffer() -> Buffer:
    return Buffer(Objects(MemoryStore()))


def cells() -> Cells:
    return Cells(buffer(), Encoding(Codecs()), SALT)


def cell(number: int) -> bytes:
    return Encoding(Codecs()).encode(f"value {number}")


keys = st.integers(0, 3000).map(lambda number: b"key:%05d" % number)
edits = st.dictionaries(keys, st.none() | st.integers(0, 9).map(cell), max_size=120)


def apply(model: dict[bytes, bytes], some: dict[bytes, bytes | None]) -> dict[bytes, bytes]:
    changed: dict[bytes, bytes | None] = {**model, **some}
    return {key: value for key, value in changed.items() if value is not None}


@given(st.lists(edits, max_size=8), st.integers(0, 2**64 - 1))
def test_a_map_has_the_root_of_the_same_map_built_at_once(
    steps: list[dict[bytes, bytes | None]], salt: int
) -> None:
    tree = MapTree(buffer(), salt)
    model: dict[bytes, bytes] = {}
    root: Link | None = None
    for step in steps:
        root = tree.apply(root, sorted(step.items()))
        model = apply(model, step)
        assert root == tree.build(sorted(model.items()))
        assert (dict(tree.items(root)) if root else {}) == model


@pytest.mark.parametrize("seed", range(6))
def test_a_large_map_survives_thousands_of_random_edits(seed: int) -> None:
    chance = random.Random(seed)
    tree = MapTree(buffer(), seed)
    model = {b"k%06d" % chance.randrange(200_000): cell(0) for _ in range(5000)}
    root = tree.build(sorted(model.items()))
    for _ in range(60):
        step: dict[bytes, bytes | None] = {}
        for _ in range(chance.choice((1, 3, 100))):
            present = chance.random() < 0.6 and model
            key = chance.choice(list(model)) if present else b"k%06d" % chance.randrange(200_000)
            step[key] = None if chance.random() < 0.4 else cell(chance.randrange(9))
        before, was = root, model
        root, model = tree.apply(root, sorted(step.items())), apply(model, step)
        assert root == tree.build(sorted(model.items()))
        assert tree.diff(before, root) == brute_force(was, model)
        for key in step:
            assert (tree.get(root, key) if root else None) == model.get(key)


def brute_force(
    old: dict[bytes, bytes], new: dict[bytes, bytes]
) -> list[tuple[bytes, bytes | None, bytes | None]]:
    names = sorted(old.keys() | new.keys())
    return [(k, old.get(k), new.get(k)) for k in names if old.get(k) != new.get(k)]


@given(edits, edits)
def test_a_diff_of_two_maps_equals_brute_force(
    some: dict[bytes, bytes | None], more: dict[bytes, bytes | None]
) -> None:
    tree = MapTree(buffer(), SALT)
    old, new = apply({}, some), apply(apply({}, some), more)
    a, b = tree.build(sorted(old.items())), tree.build(sorted(new.items()))
    assert tree.diff(a, b) == brute_force(old, new)


@given(edits, keys)
def test_a_scan_starts_where_it_is_told(some: dict[bytes, bytes | None], start: bytes) -> None:
    model = apply({}, some)
    tree = MapTree(buffer(), SALT)
    root = tree.build(sorted(model.items()))
    found = list(tree.items(root, start=start)) if root else []
    assert found == [(key, model[key]) for key in sorted(model) if key >= start]


@pytest.mark.parametrize("seed", range(8))
def test_a_list_has_the_root_of_the_same_list_built_at_once(seed: int) -> None:
    chance = random.Random(seed)
    tree = Sequence(buffer(), seed, kind=LIST)
    model = [cell(chance.randrange(50_000)) for _ in range(chance.choice((0, 1, 300, 6000)))]
    root = tree.build(model)
    for _ in range(80):
        start = chance.randrange(len(model) + 1)
        if chance.random() < 0.4:
            start = chance.choice((0, len(model)))
        stop = min(len(model), start + chance.choice((0, 0, 1, 5, 700)))
        new = [cell(chance.randrange(50_000)) for _ in range(chance.choice((0, 1, 2, 400)))]
        before, was = root, list(model)
        model[start:stop] = new
        root = tree.splice(root, start, stop, new)
        assert root == tree.build(model)
        assert (list(tree.items(root)) if root else []) == model
        low, old, young = tree.middle(before, root)
        assert [*was[:low], *young, *was[low + len(old) :]] == model


def test_appending_to_a_long_list_writes_one_node_a_level() -> None:
    new = buffer()
    tree = Sequence(new, SALT, kind=LIST)
    root = tree.build([cell(number) for number in range(20_000)])
    assert root is not None
    before = len(new.fresh)
    tree.splice(root, root.length, root.length, [cell(1)])
    assert len(new.fresh) - before <= 5


@pytest.mark.parametrize("seed", range(5))
def test_a_blob_has_the_root_of_the_same_bytes_built_at_once(seed: int) -> None:
    chance = random.Random(seed)
    blob = Blob(buffer(), SALT)
    model = chance.randbytes(chance.choice((100_000, 3_000_000)))
    root = blob.build([model])
    for _ in range(8):
        start = chance.choice((0, len(model), chance.randrange(len(model) + 1)))
        stop = min(len(model), start + chance.choice((0, 10, 300_000)))
        data = chance.randbytes(chance.choice((0, 5, 90_000)))
        assert root is not None
        root = blob.splice(root, start, stop, data)
        model = model[:start] + data + model[stop:]
        assert root == blob.build([model])
        assert root is not None
        assert blob.read(root) == model
        low = chance.randrange(len(model))
        assert blob.read(root, low, low + 1000) == model[low : low + 1000]


def test_a_blob_does_not_depend_on_the_pieces_it_came_in() -> None:
    data = random.Random(3).randbytes(2_000_000)
    blob = Blob(buffer(), SALT)
    pieces = [data[at : at + 7777] for at in range(0, len(data), 7777)]
    assert blob.build(pieces) == blob.build([data])


def test_bytes_inserted_into_a_blob_make_few_new_chunks() -> None:
    new = buffer()
    blob = Blob(new, SALT)
    data = random.Random(1).randbytes(8_000_000)
    root = blob.build([data])
    assert root is not None
    before = sum(len(item.data) for item in new.fresh.values())
    blob.splice(root, 3_000_000, 3_000_000, b"x" * 100)
    assert sum(len(item.data) for item in new.fresh.values()) - before < 800_000


leaves = st.none() | st.booleans() | st.integers() | st.text(max_size=40) | st.binary(max_size=40)
values = st.recursive(
    leaves | st.integers(200, 5000).map(lambda size: "x" * size),
    lambda inner: (
        st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=8), inner, max_size=30)
    ),
    max_leaves=40,
)


@given(st.dictionaries(st.text(max_size=6), values, max_size=8), st.data())
def test_a_value_edited_in_place_sits_where_a_new_one_would(
    start: dict[str, object], data: st.DataObject
) -> None:
    """The place of a value depends on its content, never on how it came to be."""
    some = cells()
    at = some.put(start)
    model = dict(start)
    for _ in range(data.draw(st.integers(1, 5))):
        key = data.draw(st.sampled_from(sorted(model)) if model else st.text(max_size=6))
        if data.draw(st.booleans()):
            model[key] = data.draw(values)
            at = some.edit_map(at, {some.encoding.key(key): some.put(model[key])})
        else:
            model.pop(key, None)
            at = some.edit_map(at, {some.encoding.key(key): None})
        assert at == cells().put(model)
        assert some.load(at) == model


@given(st.lists(values, max_size=10), st.data())
def test_a_list_edited_in_place_sits_where_a_new_one_would(
    start: list[object], data: st.DataObject
) -> None:
    some = cells()
    at = some.put(start)
    model = list(start)
    for _ in range(data.draw(st.integers(1, 5))):
        low = data.draw(st.integers(0, len(model)))
        high = data.draw(st.integers(low, len(model)))
        new = data.draw(st.lists(values, max_size=4))
        model[low:high] = new
        at = some.splice(at, low, high, [some.put(part) for part in new])
        assert at == cells().put(model)
        assert some.load(at) == model


def test_a_diff_of_large_maps_reads_only_what_they_do_not_share() -> None:
    new = buffer()
    tree = MapTree(new, SALT)
    root = tree.build([(b"k%06d" % number, cell(number)) for number in range(50_000)])
    changed = tree.apply(root, [(b"k%06d" % 777, cell(1))])
    with mock.patch.object(new, "nodes", side_effect=new.nodes) as nodes:
        assert len(tree.diff(root, changed)) == 1
    assert sum(len(call.args[0]) for call in nodes.call_args_list) <= 10


@pytest.mark.parametrize("seed", range(4))
def test_a_map_that_shrinks_to_nothing_has_the_root_of_what_is_left_at_every_step(
    seed: int,
) -> None:
    chance = random.Random(seed)
    tree = MapTree(buffer(), seed)
    model = {b"k%05d" % number: cell(number) for number in range(4000)}
    root = tree.build(sorted(model.items()))
    while model:
        gone = chance.sample(
            sorted(model), max(1, int(len(model) * chance.choice((0.05, 0.5, 0.9))))
        )
        for key in gone:
            del model[key]
        root = tree.apply(root, sorted(dict.fromkeys(gone).items()))
        assert root == tree.build(sorted(model.items()))
    assert root is None
