"""Promises about objects: what goes in comes out, by name or by how the name starts."""

from __future__ import annotations

import pytest

from otolith.errors import Invalid
from otolith.stores import Batch, Object, Store
from otolith.testing.store_contract.making import thing


class ObjectPromises:
    """Objects are bytes named by their hash."""

    def test_what_was_written_is_read(self, store: Store) -> None:
        a, b = thing("a"), thing(bytes(range(256)) * 300)
        store.write(Batch(objects=[a, b]))
        assert store.read([a.hash, b.hash]) == {a.hash: a.data, b.hash: b.data}

    def test_an_empty_object_is_an_object(self, store: Store) -> None:
        empty = thing(b"")
        store.write(Batch(objects=[empty]))
        assert store.read([empty.hash]) == {empty.hash: b""}

    def test_what_is_absent_is_left_out(self, store: Store) -> None:
        a, absent = thing("a"), thing("absent")
        store.write(Batch(objects=[a]))
        assert store.read([absent.hash, a.hash]) == {a.hash: a.data}

    def test_writing_an_object_again_is_harmless(self, store: Store) -> None:
        a = thing("a")
        store.write(Batch(objects=[a, a]))
        store.write(Batch(objects=[a]))
        assert store.read([a.hash]) == {a.hash: a.data}
        assert store.usage().objects == 1

    def test_an_object_that_is_not_what_its_hash_says_is_refused(self, store: Store) -> None:
        wrong = Object(thing("a").hash, b"b")
        with pytest.raises(Invalid):
            store.write(Batch(objects=[thing("c"), wrong]))
        assert store.read([wrong.hash, thing("c").hash]) == {}

    def test_a_base_is_only_a_hint(self, store: Store) -> None:
        old = thing(b"head" + b"x" * 500)
        never = thing(b"never written" * 20)
        new = [
            thing(b"HEAD" + b"x" * 500 + b"more", base=old),
            thing(b"head" + b"y" * 600, base=never),
            thing(b"", base=old),
            thing(b"tiny", base=old),
        ]
        store.write(Batch(objects=[old]))
        store.write(Batch(objects=new))
        assert store.read([item.hash for item in new]) == {item.hash: item.data for item in new}

    def test_a_long_line_of_bases_reads_back(self, store: Store) -> None:
        line = [thing(b"head" + bytes(400))]
        for place in range(60):
            line.append(thing(line[-1].data[:-4] + b"%04d" % place, base=line[-1]))
            store.write(Batch(objects=line[-2:]))
        assert store.read([item.hash for item in line]) == {item.hash: item.data for item in line}

    def test_objects_are_found_by_how_their_hash_starts(self, store: Store) -> None:
        items = [thing(str(number)) for number in range(400)]
        store.write(Batch(objects=items))
        start = items[7].hash[:2]
        wanted = sorted(item.hash for item in items if item.hash.startswith(start))
        assert store.find(start) == wanted
        assert store.find(items[7].hash) == [items[7].hash]
        assert store.find(items[7].hash[:12] + b"\0") in ([], [items[7].hash])

    def test_no_more_are_found_than_asked_for(self, store: Store) -> None:
        twin, item = _twins()
        store.write(Batch(objects=[twin, item]))
        assert len(store.find(item.hash[:2], limit=1)) == 1
        assert len(store.find(item.hash[:2], limit=2)) == 2

    def test_a_prefix_of_one_byte_is_too_short(self, store: Store) -> None:
        with pytest.raises(Invalid):
            store.find(b"\x01")


def _twins() -> tuple[Object, Object]:
    """Return two objects whose hashes start alike."""
    seen: dict[bytes, Object] = {}
    while True:
        item = thing(str(len(seen)))
        twin = seen.setdefault(item.hash[:2], item)
        if twin is not item:
            return twin, item
