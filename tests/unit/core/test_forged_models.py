"""Models that no otolith wrote are one value: nothing fails on them but with an error of ours."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import otolith
from otolith.codecs import Codecs
from otolith.core.trees.encoding import encoded_key, join_list, join_map, join_tagged
from otolith.errors import Corrupt, Error
from otolith.stores import MemoryStore
from otolith.types import Tag, Tagged


def model(*parts):
    return Tagged(Tag.MODEL, list(parts))


class AsStored(Codecs):
    """Stores what is tagged as it is."""

    def lower(self, value):
        return value if isinstance(value, Tagged) else super().lower(value)


FORGED: dict[str, Callable[[Any], Tagged]] = {
    "fields are a list": lambda x: model("m:C", 1, [x]),
    "fields are a text": lambda x: model("m:C", 1, f"text {x}"),
    "fields are null": lambda x: model("m:C", 1, None, x),
    "names are numbers": lambda x: model("m:C", 1, {1: x}),
    "a name is null": lambda x: model("m:C", 1, {None: x, "a": x}),
    "a name is no unicode": lambda x: model("m:C", 1, {"\ud800": x}),
    "the type is a number": lambda x: model(7, 1, {"a": x}),
    "the type is null": lambda x: model(None, 1, {"a": x}),
    "the version is 0": lambda x: model("m:C", 0, {"a": x}),
    "the version is a bool": lambda x: model("m:C", True, {"a": x}),
    "the version is a float": lambda x: model("m:C", 1.5, {"a": x}),
    "the version is a text": lambda x: model("m:C", "1", {"a": x}),
    "the rest is null": lambda x: model("m:C", 1, {"a": x}, None),
    "the rest is empty": lambda x: model("m:C", 1, {"a": x}, []),
    "the rest is a dict": lambda x: model("m:C", 1, {"a": x}, {"b": 1}),
    "attributes are a number": lambda x: model("m:C", 1, {"a": x}, [1]),
    "an attribute is a field": lambda x: model("m:C", 1, {"a": x}, [{"a": 2}]),
    "there are two kinds of attributes": lambda x: model("m:C", 1, {"a": x}, [{"b": 1}, {"c": 1}]),
    "what was set is not sorted": lambda x: model("m:C", 1, {"a": x}, [["b", "a"], None, None]),
    "what was set is there twice": lambda x: model("m:C", 1, {"a": x}, [["a", "a"], None, None]),
    "what was set is a number": lambda x: model("m:C", 1, {"a": x}, [[1], None, None]),
    "what was set is a text": lambda x: model("m:C", 1, {"a": x}, ["a", None, None]),
    "extra is a number": lambda x: model("m:C", 1, {"a": x}, [["a"], 5, None]),
    "extra is a field": lambda x: model("m:C", 1, {"a": x}, [["a"], {"a": 1}, None]),
    "extra is private": lambda x: model("m:C", 1, {"a": x}, [["a"], {"_p": 1}, {"_p": x}]),
    "there is a fifth part": lambda x: model("m:C", 1, {"a": x}, [["a"], None, None], 5),
    "there is a second part only": lambda x: model("m:C", x + 1),
    "there is a dict": lambda x: Tagged(Tag.MODEL, {"a": x}),
    "there is a text": lambda x: Tagged(Tag.MODEL, f"text {x}"),
    "there is a model": lambda x: Tagged(Tag.MODEL, model("m:C", 1, {"a": x})),
}
forged = pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)

PATHS = ["x", "x/a", "x/_p", "x/0", "x/a/b", "x/~:1"]


def branches(base, ours, theirs):
    """Store values as they are given; return two branches of a repo that reads them as any."""
    store = MemoryStore()
    state = otolith.Repo(store, codecs=AsStored()).session("s")
    state["x"], state["y"] = base, 1
    state.commit()
    fork = state.fork("fork")
    state["x"], fork["x"] = ours, theirs
    state.commit()
    fork.commit()
    repo = otolith.Repo(store, codecs=Codecs())
    return repo.session("s"), repo.session("s", branch="fork")


@forged
def test_forged_models_are_a_conflict_about_the_whole(forge):
    main, fork = branches(forge(1), forge(2), forge(3))

    assert [conflict.path for conflict in main.merge(fork).conflicts] == ["x"]
    main.resolve_conflict("x", take="theirs")
    main.commit()
    assert main.cells.same(main.cell_at(("x",)), fork.cell_at(("x",)))


@forged
def test_forged_models_are_compared_as_a_whole(forge):
    main, _ = branches(forge(1), forge(2), forge(3))

    assert [change.path for change in main.diff("@~1", "@")] == ["x"]
    assert [blame.path for blame in main.blame("x")] == ["x"]
    assert list(main.log(path="x/a")) == []


@forged
def test_nothing_is_read_from_inside_a_forged_model(forge):
    main, _ = branches(forge(1), forge(2), forge(3))

    for state in (main, main.at("@")):
        assert [path for path in PATHS[1:] if path in state] == []
        for path in PATHS:
            with suppress(Error):
                state[path]


@forged
@pytest.mark.parametrize("path", PATHS)
def test_a_write_into_a_forged_model_is_refused_and_changes_nothing(forge, path):
    main, _ = branches(forge(1), forge(2), forge(3))

    for value in (1, [1]):
        if path != "x":
            with pytest.raises(Error):
                main[path] = value
            with pytest.raises(Error):
                del main[path]
            assert main.is_clean
    main["x"] = 1
    main.commit()


@forged
def test_a_forged_model_beside_a_sound_one_is_a_conflict(forge):
    sound = model("m:C", 1, {"a": 1})
    for base, ours in ((sound, forge(2)), (forge(1), sound)):
        main, fork = branches(base, ours, model("m:C", 1, {"a": 3}))
        assert [conflict.path for conflict in main.merge(fork).conflicts] in (["x"], ["x/a"])


def test_models_as_deep_as_they_can_be_stored_merge_by_field():
    def nested(leaf):
        value: Any = leaf
        for _ in range(60):
            value = model("m:C", 1, {"a": value})
        return value

    main, fork = branches(nested(1), nested(2), nested(3))

    assert [conflict.path for conflict in main.merge(fork).conflicts] == ["/".join("x" + "a" * 60)]


def deep_model(depth, leaf):
    """Return the cell of a model that nobody could have stored."""
    for _ in range(depth):
        fields = join_map([(b"a", leaf)])
        leaf = join_tagged(Tag.MODEL, join_list([encoded_key(b"m:C"), b"\x01", fields]))
    return leaf


def deep_map(depth, leaf):
    """Return the cell of a dict that nobody could have stored."""
    for _ in range(depth):
        leaf = join_map([(b"a", leaf)])
    return leaf


@pytest.mark.parametrize("depth", [300, 700, 1500])
@pytest.mark.parametrize("deep", [deep_model, deep_map])
def test_values_nested_without_end_are_refused_in_words(deep, depth):
    state = otolith.open("memory:").session("s")
    state.write_cell(("x",), deep(depth, b"\x01"))
    state.commit(allow_empty=True)
    fork = state.fork("fork")
    for branch, leaf in ((state, b"\x02"), (fork, b"\x03")):
        branch.write_cell(("x",), deep(depth, leaf))
        branch.commit(allow_empty=True)

    with suppress(Corrupt):
        assert len(state.diff("fork", "main")) == 1
    with suppress(Corrupt):
        assert state.merge("fork").conflicts
    path = "/".join("x" + "a" * 40)
    for act in (lambda: state.blame(path), lambda: list(state.log(path=path)), state.status):
        with suppress(Error):
            act()
