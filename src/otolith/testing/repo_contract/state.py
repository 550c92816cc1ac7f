"""What a state promises: paths, values, staged edits, equal roots for equal content."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from otolith.core import Branch, Repo
from otolith.errors import BadPath, BadValue, Closed, KeyNotFound, ReadOnly
from otolith.testing.repo_contract.making import SESSION

WIDE = {f"key {number:04}": f"value {number}" * 3 for number in range(600)}
LONG = [{"number": number, "text": "some text " * 4} for number in range(400)]


class StatePromises:
    """Promises about what is there now."""

    def reopen(self, repo: Repo, folder: Path) -> Repo | None:
        raise NotImplementedError

    def test_opening_again_finds_the_head(self, repo: Repo, tmp_path: Path) -> None:
        state = repo.session(SESSION)
        state["budget"] = 500
        made = state.commit("asked")
        again = self.reopen(repo, tmp_path) or repo
        found = again.session(SESSION)
        assert found.head == made
        assert found["budget"] == 500
        again.close()

    def test_a_new_session_is_empty_and_has_no_head(self, repo: Repo) -> None:
        state = repo.session("nobody")
        assert (state.head, len(state), state.is_clean) == (None, 0, True)
        assert repo.sessions() == []

    def test_a_session_is_there_after_its_first_commit(self, repo: Repo) -> None:
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

    def test_equal_states_have_equal_roots_however_they_came_to_be(self, repo: Repo) -> None:
        at_once, by_steps = repo.session("one"), repo.session("two")
        at_once["wide"], at_once["long"], at_once["n"] = dict(WIDE), deepcopy(LONG), 2
        for key in reversed(WIDE):
            by_steps.map("wide")[key] = WIDE[key]
        by_steps.commit()
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

    def test_values_of_another_type_have_another_root(self, repo: Repo) -> None:
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
    def test_size_is_the_length_of_the_full_encoding(self, repo: Repo, value: Any) -> None:
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

    def test_a_closed_repo_says_so(self, repo: Repo) -> None:
        state = repo.session(SESSION)
        state["a"] = 1
        state.commit()
        repo.close()
        repo.close()
        state["a"] = 2
        for act in (state.commit, lambda: repo.session("x"), repo.sessions, state.refresh):
            with pytest.raises(Closed):
                act()
