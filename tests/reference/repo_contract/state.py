"""What a state promises: paths, values, staged edits, equal roots for equal content.

What a state promises about the values it hands out: they are held, or they are copies.

What handles promise: lists, maps, sets, counters and bytes, each edited in place.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from datetime import date
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest

from otolith.core import BareRepo, Branch
from otolith.errors import BadPath, BadValue, Closed, Error, KeyNotFound, ReadOnly, Unstorable
from tests.reference.repo_contract.fork import SESSION

WIDE = {f"key {number:04}": f"value {number}" * 3 for number in range(600)}
LONG = [{"number": number, "text": "some text " * 4} for number in range(400)]


class StatePromises:
    """Promises about what is there now."""

    def reopen(self, repo: BareRepo, folder: Path) -> BareRepo | None:
        raise NotImplementedError

    def test_opening_again_finds_the_head(self, repo: BareRepo, tmp_path: Path) -> None:
        state = repo.session(SESSION)
        state["budget"] = 500
        made = state.commit("asked")
        again = self.reopen(repo, tmp_path) or repo
        found = again.session(SESSION)
        assert found.head == made
        assert found["budget"] == 500
        again.close()

    def test_a_new_session_is_empty_and_has_no_head(self, repo: BareRepo) -> None:
        state = repo.session("nobody")
        assert (state.head, len(state), state.is_clean) == (None, 0, True)
        assert repo.sessions() == []

    def test_a_session_is_there_after_its_first_commit(self, repo: BareRepo) -> None:
        repo.session("b/ü").commit("empty")
        repo.session("a").commit("empty")
        repo.session("a").fork("side")
        assert [tuple(found) for found in repo.sessions()] == [
            ("a", ("main", "side")),
            ("b/ü", ("main",)),
        ]

    def test_a_path_names_nested_values(self, state: Branch) -> None:
        state["plan/steps"] = ["search", {"book": {"hotel": 2}}]
        assert state["plan"] == {"steps": ["search", {"book": {"hotel": 2}}]}
        assert state["plan/steps/0"] == "search"
        assert state["plan/steps/-1/book/hotel"] == 2
        assert "plan/steps/2" not in state

    def test_a_path_writes_below_elements_of_lists(self, state: Branch) -> None:
        state["plan"] = [{"do": "search", "tags": ["a"]}, [1, 2]]
        state["plan/0/do"] = "book"
        state["plan/0/cost/eur"] = 9
        state["plan/1/0"] = 3
        state.list("plan/0/tags").append("b")
        del state["plan/1/1"]
        assert state["plan"] == [{"do": "book", "tags": ["a", "b"], "cost": {"eur": 9}}, [3]]

    def test_a_path_may_be_keys_of_any_kind(self, state: Branch) -> None:
        state[("seats", 42)] = "free"
        state[("notes", "a/b~c")] = "odd"
        assert state["seats/~:42"] == "free"
        assert state["notes/a~1b~0c"] == "odd"

    def test_the_keys_of_a_state_are_paths_to_its_values(self, state: Branch) -> None:
        state[("a/b",)] = 1
        state[(7,)] = 2
        assert {path: state[path] for path in state} == {"a~1b": 1, "~:7": 2}

    def test_deleting_a_path_removes_what_is_there(self, state: Branch) -> None:
        state["plan"] = {"a": 1, "b": 2}
        del state["plan/a"]
        assert state.to_dict() == {"plan": {"b": 2}}
        with pytest.raises(KeyNotFound, match="plan/a"):
            del state["plan/a"]

    def test_a_missing_path_is_named(self, state: Branch) -> None:
        with pytest.raises(KeyNotFound, match="plan/missing"):
            state["plan/missing"]

    def test_status_lists_the_staged_edits(self, state: Branch) -> None:
        state["a"] = 1
        state["b"] = 1
        state.commit()
        state["a"] = 2
        del state["b"]
        state["c/d"] = 3
        found = {change.path: (change.kind, change.old, change.new) for change in state.status()}
        assert found == {
            "a": ("changed", 1, 2),
            "b": ("removed", 1, None),
            "c": ("added", None, {"d": 3}),
        }

    def test_discarded_edits_are_gone(self, state: Branch) -> None:
        state["a"] = 1
        state.commit()
        state["a"] = 2
        state.list("log").append("x")
        state.discard()
        assert state.is_clean
        assert state.to_dict() == {"a": 1}

    def test_equal_content_makes_no_commit(self, state: Branch) -> None:
        state["a"] = {"b": [1, 2]}
        first = state.commit()
        state["a"] = {"b": [1]}
        state["a/b"] = [1, 2]
        assert state.is_clean
        assert state.commit("nothing new") == first
        assert state.commit("on purpose", allow_empty=True).parents == (first.id,)

    def test_equal_states_have_equal_roots_however_they_came_to_be(self, repo: BareRepo) -> None:
        at_once, by_steps = repo.session("one"), repo.session("two")
        at_once["wide"], at_once["long"], at_once["n"] = dict(WIDE), deepcopy(LONG), 2
        for key in reversed(WIDE):
            by_steps.map("wide")[key] = None
        by_steps.commit()
        for key, value in WIDE.items():
            del by_steps.map("wide")[key]
            by_steps.map("wide")[key] = value
        by_steps["long"] = []
        for at in range(0, len(LONG), 50):
            by_steps.list("long").extend(LONG[at : at + 50])
            by_steps.commit()
        by_steps["n"] = "something else"
        by_steps["gone"] = dict(WIDE)
        by_steps.commit()
        by_steps["n"] = 2
        del by_steps["gone"]
        assert by_steps.commit().root == at_once.commit().root

    @pytest.mark.parametrize("value", [WIDE, {"b": 1, "a": [2]}, {1: {"y": 1, "x": 2}, "1": 0}])
    def test_a_dict_is_read_in_its_order_and_another_order_is_another_root(
        self, repo: BareRepo, value: dict[Any, Any]
    ) -> None:
        here, there = repo.session("one"), repo.session("two")
        turned = dict(reversed(value.items()))
        here["d"], there["d"] = deepcopy(value), deepcopy(turned)
        assert here.commit().root != there.commit().root
        assert repr(repo.session("one")["d"]) == repr(value)
        assert repr(repo.session("two")["d"]) == repr(turned)
        there["d"] = deepcopy(value)
        assert there.commit().root == here.commit().root

    def test_a_dict_whose_order_changed_in_place_is_committed(self, repo: BareRepo) -> None:
        state = repo.session("one")
        state["small"], state["wide"] = {"a": 1, "b": 2}, dict(WIDE)
        first = state.commit()
        for name in ("small", "wide"):
            value = state[name]
            key = next(iter(value))
            value[key] = value.pop(key)
            state[name] = value
        assert state.commit().root != first.root
        assert list(repo.session("one")["small"]) == ["b", "a"]
        assert list(repo.session("one")["wide"])[-1] == "key 0000"
        assert {change.path for change in state.diff(first)} == {"small", "wide"}

    def test_values_of_another_type_have_another_root(self, repo: BareRepo) -> None:
        values: list[Any] = [1, 1.0, True, "1", b"1", [1], (1,), {1}, frozenset([1]), {1: None}]
        roots = set()
        for number, value in enumerate(values):
            state = repo.session(str(number))
            state["x"] = value
            roots.add(state.commit().root)
            assert type(state["x"]) is type(value)
        assert len(roots) == len(values)

    @pytest.mark.parametrize("path", ["", "/a", "a/", "a//b", (), "~:{", 5])
    def test_a_bad_path_is_refused(self, state: Branch, path: Any) -> None:
        with pytest.raises(BadPath):
            state[path] = 1
        with pytest.raises(BadPath):
            state[path]
        assert state.is_clean

    def test_a_path_through_a_value_without_parts_is_refused(self, state: Branch) -> None:
        state["a"] = 5
        with pytest.raises(BadPath, match="a is a scalar"):
            state["a/b"] = 1
        assert state.to_dict() == {"a": 5}

    def test_names_with_a_dot_in_front_belong_to_otolith(self, state: Branch) -> None:
        for write in (
            lambda: state.__setitem__(".policy", {}),
            lambda: state.__delitem__(".policy"),
            lambda: state.counter(".n").add(),
            lambda: state.list(".l").append(1),
            lambda: state.list(".l").insert(0, 1),
            lambda: state.map(".policy").update(x="ours"),
            lambda: state.set(".s").add(1),
            lambda: state.blob(".b").write(b"x"),
        ):
            with pytest.raises(BadPath, match="belong to otolith"):
                write()
        assert state.is_clean
        state["a/.hidden"] = 1
        assert state["a/.hidden"] == 1

    def test_a_commit_that_cannot_be_described_is_refused(self, state: Branch) -> None:
        state["a"] = 1
        with pytest.raises(BadValue):
            state.commit("\ud800")
        with pytest.raises(BadValue):
            state.commit(meta={"x": object()})
        assert state.head is None
        assert state.commit("fine").message == "fine"

    def test_a_snapshot_is_read_only(self, state: Branch) -> None:
        state["log"], state["n"], state["m"], state["s"], state["b"] = [1], 1, {"x": 1}, {1}, b"x"
        old = state.at(state.commit())
        assert not hasattr(old, "__setitem__")
        for write in (
            lambda: old.list("log").append(2),
            lambda: old.list("log").insert(0, 2),
            lambda: old.counter("n").add(),
            lambda: old.map("m").clear(),
            lambda: old.set("s").add(2),
            lambda: old.blob("b").append(b"y"),
        ):
            with pytest.raises(ReadOnly):
                write()
        assert old.to_dict() == {"log": [1], "n": 1, "m": {"x": 1}, "s": {1}, "b": b"x"}

    @pytest.mark.parametrize(
        "value", [1, "short", WIDE, LONG, set(range(3000)), (1, "x" * 9000), "é" * 70_000, {}]
    )
    def test_size_is_the_length_of_the_full_encoding(self, repo: BareRepo, value: Any) -> None:
        state = repo.session(SESSION)
        state["x"] = deepcopy(value)
        assert state.size("x") == len(repo.encoding.encode(value))
        state.commit()
        assert state.size() == len(repo.encoding.encode({"x": value}))

    def test_kinds_and_names_are_told_without_reading_values(self, state: Branch) -> None:
        state["m"] = {"a": 1, 2: 3}
        state["l"], state["t"], state["n"], state["u"] = [1], "x", 1.5, (1,)
        kinds = {name: state.kind(name) for name in state.names()}
        assert kinds == {"m": "map", "l": "list", "t": "str", "n": "float", "u": "tuple"}
        assert state.names("m") == ["a", "~:2"]

    def test_a_closed_repo_says_so(self, repo: BareRepo) -> None:
        state = repo.session(SESSION)
        state["a"] = 1
        state.commit()
        repo.close()
        repo.close()
        state["a"] = 2
        for act in (state.commit, lambda: repo.session("x"), repo.sessions, state.refresh):
            with pytest.raises(Closed):
                act()


THREADS, COMMITS = 8, 20


class Unkept:
    """An object that nothing can keep."""

    def __reduce__(self) -> str:
        raise TypeError("this object cannot be kept")


UNKEPT = [Unkept(), [1, {"x": Unkept()}], {"x": lambda: 1}]


class EitherPromises:
    """Promises about values, whoever holds them."""

    @pytest.mark.parametrize("value", UNKEPT, ids=["object", "list", "dict"])
    def test_a_handle_names_a_value_that_cannot_be_kept_and_changes_nothing(
        self, state: Branch, value: Any
    ) -> None:
        state["a/b"] = 1
        state.list("log").append(1)
        writes: list[Callable[[], None]] = [
            lambda: state.map("a").__setitem__("b", value),
            lambda: state.list("log").append(value),
            lambda: state.list("a/new").append(value),
            lambda: state.list("log").insert(0, value),
        ]
        for write in writes:
            with pytest.raises(BadValue, match=r"^(a|log)"):
                write()
        assert state.to_dict() == {"a": {"b": 1}, "log": [1]}
        assert state.policies() == {"log": "append"}


class CopyPromises(EitherPromises):
    """Promises of a bare branch: what goes in and comes out is a copy."""

    @pytest.mark.parametrize("value", UNKEPT, ids=["object", "list", "dict"])
    def test_a_value_that_cannot_be_kept_is_named_and_changes_nothing(
        self, state: Branch, value: Any
    ) -> None:
        state["a/b"] = 1
        with pytest.raises(BadValue, match=r"^a/b"):
            state["a/b"] = value
        assert state.to_dict() == {"a": {"b": 1}}

    def test_what_contains_itself_is_refused(self, state: Branch) -> None:
        loop: list[Any] = []
        loop.append(loop)
        with pytest.raises(BadValue, match="nested deeper"):
            state["loop"] = loop

    def test_changing_a_value_that_was_read_changes_nothing(self, state: Branch) -> None:
        state["a"] = {"b": [1]}
        state["a"]["b"].append(2)
        assert state["a"] == {"b": [1]}

    def test_changing_a_value_after_it_was_set_changes_nothing(self, state: Branch) -> None:
        value = {"b": [1]}
        state["a"] = value
        value["b"].append(2)
        assert state["a"] == {"b": [1]}


class HeldPromises(EitherPromises):
    """Promises of a state: what it hands out is what it keeps."""

    def reopen(self, repo: BareRepo, folder: Path) -> BareRepo | None:
        raise NotImplementedError

    def test_a_path_gives_the_same_object_each_time(self, state: Branch) -> None:
        value = {"b": [1]}
        state["a"] = value
        assert state["a"] is value
        state.commit()
        assert state["a"] is value
        assert state["a/b"] is value["b"]

    def test_a_change_of_what_was_read_is_part_of_the_next_commit(
        self, repo: BareRepo, tmp_path: Path
    ) -> None:
        state = repo.session(SESSION)
        state["a"] = {"b": [1], "c": {1}}
        state.commit()
        state["a"]["b"].append(2)
        state["a/c"].add(2)
        assert not state.is_clean
        assert [change.path for change in state.status()] == ["a/b/1", "a/c"]
        state.commit()
        assert state.status() == []
        again = self.reopen(repo, tmp_path) or repo
        found = again.session(SESSION)
        assert found.to_dict() == {"a": {"b": [1, 2], "c": {1, 2}}}
        again.close()

    def test_a_change_of_what_was_set_is_part_of_the_next_commit(self, state: Branch) -> None:
        value = {"b": [1]}
        state["a"] = value
        value["b"].append(2)
        assert state["a"] == {"b": [1, 2]}
        assert state.at(state.commit())["a"] == {"b": [1, 2]}

    def test_a_change_before_a_snapshot_is_not_in_it(self, state: Branch) -> None:
        state["a"] = [1]
        old = state.at(state.commit())
        state["a"].append(2)
        assert (old["a"], state["a"]) == ([1], [1, 2])

    def test_reading_makes_no_commit(self, repo: BareRepo) -> None:
        state = repo.session(SESSION)
        state["s"], state["m"], state["t"] = {"b", "a", "c"}, {"z": 1, "a": {3, 1}}, ([1], {2})
        made = state.commit()
        other = repo.session(SESSION)
        other.to_dict()
        assert other.is_clean
        assert other.commit("nothing") == made

    def test_discarding_takes_back_what_was_changed_in_place(self, state: Branch) -> None:
        state["a"] = value = {"b": [1]}
        state.commit()
        value["b"].append(2)
        state.discard()
        assert value == {"b": [1]}
        assert state["a"] is value

    @pytest.mark.parametrize("value", UNKEPT, ids=["object", "list", "dict"])
    def test_a_value_that_cannot_be_kept_is_named_by_the_commit_and_nothing_is_lost(
        self, repo: BareRepo, state: Branch, value: Any
    ) -> None:
        state["a/b"], state["c"] = 1, [1]
        first = state.commit()
        state["a/b"], state["new"] = value, [2]
        state["c"].append(2)
        with pytest.raises(Unstorable, match="a/b") as refused:
            state.commit()
        assert list(refused.value.values) == ["a/b"]
        assert repo.session(SESSION).head == first
        assert (state["a/b"], state["c"], state["new"]) == (value, [1, 2], [2])
        state["a/b"] = 2
        assert state.at(state.commit()).to_dict() == {"a": {"b": 2}, "c": [1, 2], "new": [2]}

    def test_what_contains_itself_is_one_object_again(self, repo: BareRepo, tmp_path: Path) -> None:
        state = repo.session(SESSION)
        loop: list[Any] = []
        loop.append(loop)
        state["loop"], state["a"] = loop, 1
        state.commit()
        again = self.reopen(repo, tmp_path) or repo
        found = again.session(SESSION)
        assert found["loop"][0] is found["loop"]
        found["loop"].clear()
        assert found.at(found.commit()).to_dict() == {"loop": [], "a": 1}

    def test_one_object_under_two_names_is_one_again(self, repo: BareRepo, tmp_path: Path) -> None:
        state = repo.session(SESSION)
        shared = [1]
        state["a"], state["b"] = shared, {"x": [shared]}
        state.commit()
        again = self.reopen(repo, tmp_path) or repo
        found = again.session(SESSION)
        found["a"].append(2)
        assert found["b"] == {"x": [[1, 2]]}
        assert found.at(found.commit()).to_dict() == {"a": [1, 2], "b": {"x": [[1, 2]]}}
        again.close()

    def test_eight_threads_share_one_state(self, repo: BareRepo) -> None:
        state, gate, failures = repo.session(SESSION), Barrier(THREADS), list[Error]()
        for number in range(THREADS):
            state[f"worker {number}"] = {"log": [], "seen": set()}
        state.commit()

        def work(number: int) -> None:
            gate.wait()
            try:
                for step in range(COMMITS):
                    mine = state[f"worker {number}"]
                    mine["log"].append(step)
                    mine["seen"].add(step)
                    state[f"worker {(number + step) % THREADS}"]["seen"].copy()
                    state.commit(f"{number}: {step}")
            except Error as error:
                failures.append(error)

        threads = [Thread(target=work, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        whole = {"log": list(range(COMMITS)), "seen": set(range(COMMITS))}
        assert failures == []
        assert repo.session(SESSION).to_dict() == {f"worker {n}": whole for n in range(THREADS)}


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
        with pytest.raises(BadValue, match="must have step 1, got 2"):
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
