"""A bucket that an earlier version has filled is read, and written, for ever."""

from __future__ import annotations

import pytest

from otolith.errors import Fenced
from otolith.stores import Batch, BucketStore
from tests.compat.make_golden_bucket import GOLDEN, LARGE, PACKED, RECENT, all_objects
from tests.reference.objects import blob, links, put


@pytest.fixture
def store(request):
    url = request.getfixturevalue("bucket_place").url()
    empty = BucketStore(url)
    empty._client.put_many({file.name: file.read_bytes() for file in GOLDEN.iterdir()})
    empty.close()
    store = BucketStore(url, create=False)
    yield store
    store.close()


def test_every_kind_of_key_is_in_it():
    kinds = {file.name.partition("-")[0] for file in GOLDEN.iterdir()}
    assert kinds == {"root", "pack", "part"}


def test_its_objects_are_read(store):
    wanted = {item.hash: item.data for item in all_objects()}
    assert store.read(list(wanted)) == wanted
    assert store.usage().objects == len(wanted)


def test_its_refs_histories_and_fences_are_read(store):
    assert store.refs() == {"busy": PACKED[0].hash, "ü": RECENT[0].hash}
    assert [move.time for move in store.moves("busy")] == list(range(41, 1, -1))
    assert [(move.old, move.new, move.note) for move in store.moves("main")] == [
        (LARGE.hash, None, ""),
        (None, LARGE.hash, "first"),
    ]
    with pytest.raises(Fenced):
        store.write(Batch(fences={"lease": 6}))


def test_it_is_written_and_collected(store):
    put(store, "new", blob("new"))

    done = store.collect(links, forget_moves_before=1000)

    assert done.kept_objects == 3  # what the three refs name
    assert store.read([blob("new").hash]) == {blob("new").hash: b"new"}
