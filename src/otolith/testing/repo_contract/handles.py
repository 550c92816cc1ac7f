"""What handles promise: lists, maps, sets, counters and bytes, each edited in place."""

from __future__ import annotations

from copy import deepcopy
from datetime import date
from typing import Any

import pytest

from otolith.core import Branch
from otolith.errors import BadPath, BadValue, KeyNotFound

SOME = [{"number": number, "text": "some text " * 4} for number in range(300)]


class HandlePromises:
    """Promises about values that are read and written in part."""

    @pytest.mark.parametrize("start", [[], [1, 2, 3], SOME], ids=["empty", "short", "long"])
    def test_a_list_handle_does_what_a_list_does(self, state: Branch, start: list[Any]) -> None:
        state["log"] = deepcopy(start)
        handle, model = state.list("log"), list(start)
        for some in (handle, model):
            some.append("a")
            some.extend(["b", "c"])
            some.insert(0, "first")
            some.insert(-1, "before last")
            some.insert(9999, "last")
            some[1:2] = ["x", "y", "z"]
            some[-2] = {"changed": True}
            some[5:3] = ["between"]
            del some[0]
            del some[-1]
            del some[2:4]
            some.extend(["more"])
            state.commit()
        assert list(handle) == model == state["log"]
        assert (len(handle), handle[-1], handle[1:-1:2]) == (len(model), model[-1], model[1:-1:2])
        assert handle.index("more") == model.index("more")

    def test_a_list_handle_refuses_what_is_not_there(self, state: Branch) -> None:
        log = state.list("log")
        log.append(1)
        for index in (1, -2):
            with pytest.raises(IndexError, match="log has 1"):
                log[index]
        with pytest.raises(BadValue, match="no step"):
            log[::2] = [1]

    def test_a_handle_on_something_else_is_refused(self, state: Branch) -> None:
        state["x"] = "text"
        for make in (state.list, state.map, state.set, state.counter, state.blob):
            with pytest.raises(BadPath, match="x is a str"):
                make("x")

    def test_a_handle_on_nothing_stages_nothing(self, state: Branch) -> None:
        reads = (
            len(state.list("a")),
            len(state.map("b")),
            len(state.set("c")),
            state.counter("d").value,
            state.blob("e").read(),
        )
        state.set("c").discard("x")
        assert reads == (0, 0, 0, 0, b"")
        assert state.to_dict() == {}

    def test_a_map_handle_takes_keys_of_any_plain_kind(self, state: Branch) -> None:
        seats = state.map("seats")
        model = {
            5: "a",
            "5": "b",
            None: "c",
            (1, 2): "d",
            date(2026, 1, 2): "e",
            b"x": "f",
            "": "g",
        }
        seats.update(model)
        del seats[5]
        model.pop(5)
        assert dict(seats) == model == state["seats"]
        assert (len(seats), seats[None], (1, 2) in seats, 5 in seats) == (6, "c", True, False)
        with pytest.raises(KeyNotFound, match="seats has no key 5"):
            del seats[5]

    def test_a_map_handle_refuses_keys_that_no_dict_has(self, state: Branch) -> None:
        with pytest.raises(BadValue, match="cannot be a key"):
            state.map("m")[["a"]] = 1
        assert state.is_clean

    @pytest.mark.parametrize("count", [20, 2000])
    def test_a_scan_yields_keys_with_a_prefix_in_order(self, state: Branch, count: int) -> None:
        found = state.map("found")
        found.update({f"{kind}/{number:05}": number for kind in "abc" for number in range(count)})
        found[3] = "not a str"
        state.commit()
        assert list(found.scan("b/")) == [(f"b/{number:05}", number) for number in range(count)]
        assert next(found.scan("b/", start="b/00007")) == ("b/00007", 7)
        assert [key for key, _ in found.scan("c/0001")] == [
            f"c/{number:05}" for number in range(10, min(count, 20))
        ]
        assert len(list(found.scan())) == 3 * count

    def test_a_set_handle_does_what_a_set_does(self, state: Branch) -> None:
        tags = state.set("tags")
        tags.add("a")
        tags.update(range(1000))
        tags.discard("missing")
        tags -= {1, 2}
        tags |= {"b"}
        state.commit()
        assert state["tags"] == {"a", "b", *range(1000)} - {1, 2}
        assert (len(tags), "b" in tags, 2 in tags) == (1000, True, False)
        with pytest.raises(BadValue, match="tags"):
            tags.add([])

    def test_a_counter_adds_up(self, state: Branch) -> None:
        spent = state.counter("spent")
        assert (spent.add(), spent.add(4), spent.add(-2)) == (1, 5, 3)
        assert (spent.value, int(spent), state["spent"]) == (3, 3, 3)

    def test_a_counter_that_cannot_add_changes_nothing(self, state: Branch) -> None:
        state["x"] = None
        for amount in (1, "1"):
            with pytest.raises(BadValue, match="x"):
                state.counter("x").add(amount)
        assert (state["x"], state.policies()) == (None, {})

    @pytest.mark.parametrize("size", [0, 10, 5000, 300_000])
    def test_a_blob_handle_does_what_bytes_do(self, state: Branch, size: int) -> None:
        model = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
        state["file"] = model
        blob = state.blob("file")
        for start, stop, data in ((0, 0, b"head"), (size, size + 9, b"t" * 70_000), (3, 1, b"mid")):
            blob.splice(start, stop, data)
            model = model[:start] + data + model[max(start, stop) :]
            state.commit()
            assert (len(blob), blob.read()) == (len(model), model)
        blob.append(b"end")
        assert blob.read(-3) == b"end"
        assert blob.read(5, 1000) == model[5:1000]

    def test_a_blob_handle_takes_a_stream_of_pieces(self, state: Branch) -> None:
        state.blob("file").write(bytes([number]) * 1000 for number in range(200))
        whole = state.blob("file").read()
        assert state["file"] == whole == b"".join(bytes([n]) * 1000 for n in range(200))

    def test_two_handles_on_one_value_see_each_other(self, state: Branch) -> None:
        one, two = state.list("log"), state.list("log")
        one.append(1)
        two.append(2)
        state["log/0"] = 3
        assert list(one) == list(two) == [3, 2]
