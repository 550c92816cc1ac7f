"""The order of dicts: stored in every place, kept by edits, read back everywhere."""

from __future__ import annotations

import random
from itertools import count

import pytest

from otolith.care import verify
from otolith.codecs import Codecs
from otolith.core import BareRepo, Cells
from otolith.core.trees.layout import LIST_KIND, MARK, TAGGED_KIND, Link
from otolith.errors import Corrupt
from otolith.stores import MemoryStore
from otolith.types import Tag

LONG = "x" * 2000
ORDERED_HEAD = bytes((MARK, TAGGED_KIND, Tag.ORDERED))


def fresh_repo() -> BareRepo:
    clock = count(1)
    return BareRepo(
        MemoryStore(), codec=Codecs(), clock=lambda: next(clock), author="a", entropy=bytes
    )


@pytest.fixture
def repo():
    return fresh_repo()


@pytest.fixture
def state(repo):
    return repo.session("s")


@pytest.fixture
def cells(repo):
    return repo.backend.cells()


def scattered(size):
    numbers = random.Random(size).sample(range(size), size)
    return {f"k{number:06d}": "v" for number in numbers}


def names(cells: Cells, cell: bytes) -> list[str]:
    return [name.decode() for name in cells.names(cell)]


DICTS = {
    "inline": {"z": 1, "a": 2},
    "packed": {"z": LONG, "a": LONG},
    "tree of few": {"z": LONG * 9, "a": LONG * 9},
    "tree of many": scattered(3000),
    "one key late": {**{f"k{n:05d}": n for n in range(3000)}, "a": 1},
    "other keys": dict.fromkeys((5, None, "b", b"x", (2, 1), -3, "a", 2.5, True, "ä"), LONG),
    "long keys": {letter * 400: LONG for letter in "zyxwvutsrqponmlk"},
}


@pytest.mark.parametrize("value", DICTS.values(), ids=DICTS)
def test_a_dict_comes_back_in_its_order_wherever_it_is(cells, value):
    for whole in (value, [value], {"in": value}, (value, [{"b": value, "a": 1}])):
        assert repr(cells.load(cells.put(whole))) == repr(whole)


@pytest.mark.parametrize("value", DICTS.values(), ids=DICTS)
def test_another_order_is_another_value_and_key_order_has_no_list_beside_it(cells, value):
    turned = dict(reversed(value.items()))
    in_order = {key: value[key] for key in sorted(value, key=cells.encoding.key)}

    assert not cells.same(cells.put(turned), cells.put(value))
    assert not cells.put(in_order).startswith(ORDERED_HEAD)
    assert cells.is_sorted(cells.put(in_order))


def test_a_set_has_no_order(cells):
    elements = list(scattered(3000))
    forward, backward = dict.fromkeys(elements), dict.fromkeys(reversed(elements))

    assert cells.put(set(forward)) == cells.put(set(backward))
    assert cells.put(frozenset(elements[:3])) == cells.put(frozenset(elements[2::-1]))


def test_a_set_that_is_edited_by_a_handle_has_no_order(state):
    for element in scattered(3000):
        state.set("handle").add(element)
    state["whole"] = set(scattered(3000))
    state.commit("both")

    assert state.cell_at(("handle",)) == state.cell_at(("whole",))


@pytest.mark.parametrize("size", [3, 3000])
def test_a_new_key_comes_last_and_a_replaced_one_stays(state, size):
    state["m"] = value = scattered(size)
    state.commit("before")
    first = next(iter(value))
    state["m/aaa"], state[f"m/{first}"], state["m/zzz"], state["m/bbb"] = 1, 2, 3, 4
    state.commit("after")

    assert list(state["m"]) == [*value, "aaa", "zzz", "bbb"]
    assert list(state.map("m")) == list(state["m"])
    assert state.names("m") == list(state["m"])


@pytest.mark.parametrize("size", [3, 3000])
def test_a_key_that_was_removed_and_put_again_comes_last(state, size):
    state["m"] = value = scattered(size)
    first, second, *rest = value
    del state[f"m/{first}"]
    state[f"m/{first}"] = "again"
    assert list(state["m"]) == [second, *rest, first]
    del state[f"m/{second}"]
    state.commit("removed")
    state[f"m/{second}"] = "again"

    assert list(state["m"]) == [*rest, first, second]


def test_new_keys_that_follow_all_others_need_no_list(state):
    state["m"] = {f"k{number:05d}": number for number in range(3000)}
    state["m/k99998"], state["m/k99999"] = 1, 2
    state.commit("appended")
    assert not state.cell_at(("m",)).startswith(ORDERED_HEAD)
    state["m/k99990"] = 3
    state.commit("one before others")

    assert state.cells.tails.names(state.cells.order(state.cell_at(("m",)))) == [b"k99990"]


def test_a_dict_that_comes_into_key_order_loses_its_list(state):
    state["m"] = {f"k{number:05d}": number for number in range(3000)} | {"a": 1, "b": 2}
    in_order = {name: number for name, number in state["m"].items() if name > "b"}
    del state["m/a"], state["m/b"]
    state.commit("removed")

    assert state.cells.same(state.cell_at(("m",)), state.cells.put(in_order))


def test_order_survives_the_way_into_a_tree_and_out_of_it(state):
    state["m"] = {"z": "z", "b": "b"}
    state["m/a"] = LONG * 9
    assert state.cell_at(("m",)).startswith(ORDERED_HEAD)
    assert list(state["m"]) == ["z", "b", "a"]
    state["m/a"] = "short"
    state.commit("short again")

    assert state.cells.same(
        state.cell_at(("m",)), state.cells.put({"z": "z", "b": "b", "a": "short"})
    )


def test_the_names_of_a_state_are_in_key_order(state):
    for name in ("z", "b", "a", "c"):
        state[name] = name
    state.policy("z", "max")
    state.policy("a", "max")
    state.commit("names")

    assert list(state) == ["a", "b", "c", "z"]
    assert list(state.to_dict()) == ["a", "b", "c", "z"]
    assert list(state[".policy"]) == ["a", "z"]


def test_adding_a_key_to_a_large_dict_writes_the_end_of_its_order_only(state):
    state["m"] = scattered(20_000)
    state.commit("before")
    state["m/new"] = 1
    commit = state.commit("after")

    assert commit.stats.bytes < 20_000


# Diffs


def test_a_diff_reports_a_dict_whose_keys_moved(state):
    state["small"], state["large"] = {"z": 1, "a": 2}, scattered(3000)
    before = state.commit("before")
    state["small"] = {"a": 2, "z": 1}
    state["large"] = dict(reversed(state["large"].items()))
    state.commit("moved")

    found = [(each.kind, each.path) for each in state.diff(before)]
    assert found == [("changed", "large"), ("changed", "small")]
    assert [list(each.new) for each in state.diff(before)][1] == ["a", "z"]


def test_a_diff_of_new_and_removed_keys_reports_no_moves(state):
    state["small"], state["large"] = {"z": 1, "a": 2, "m": 3}, scattered(3000)
    before = state.commit("before")
    state["small/b"], state["large/b"], state["large/c"] = 1, 2, 3
    del state["small/a"], state["large/k000777"]
    state.commit("added and removed")

    found = [(each.kind, each.path) for each in state.diff(before)]
    assert found == [
        ("added", "large/b"), ("added", "large/c"), ("removed", "large/k000777"),
        ("removed", "small/a"), ("added", "small/b"),
    ]  # fmt: skip


# Merges


def merged(base, ours, theirs, *, swap=False):
    repo = fresh_repo()
    left = repo.session("s")
    left["m"] = base
    left.commit("base")
    right = left.fork("right")
    left["m"], right["m"] = ours, theirs
    left.commit("ours")
    right.commit("theirs")
    into, other = (right, left) if swap else (left, right)
    found = into.merge(other)
    assert not found.conflicts
    return into["m"]


FILL = {f"k{number:05d}": LONG for number in range(40)}


@pytest.mark.parametrize("fill", [{}, FILL], ids=["short", "tree"])
@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize(
    ("base", "ours", "theirs", "expected"),
    [
        ("zb", "zbc", "zba", "zbca"),  # both added: the earlier side's first
        ("zb", "zbdc", "zbfe", "zbdcfe"),
        ("zba", "zba", "azb", "azb"),  # only one reordered
        ("zba", "azb", "zba", "azb"),
        ("zba", "zbad", "abz", "abzd"),  # one reordered, the other added
        ("zba", "bza", "abz", "bza"),  # both reordered: the earlier side's
        ("zba", "za", "azb", "az"),  # one removed, the other reordered
        ("", "zb", "za", "zba"),
    ],
)
def test_a_merged_dict_has_an_order_whoever_merges_whom(base, ours, theirs, expected, swap, fill):
    sides = (fill | dict.fromkeys(keys, 1) for keys in (base, ours, theirs))
    found = list(merged(*sides, swap=swap))

    assert [key for key in found if key not in fill] == list(expected)


@pytest.mark.parametrize("fill", [{}, FILL], ids=["short", "tree"])
@pytest.mark.parametrize("swap", [False, True])
def test_two_sides_in_key_order_merge_in_key_order(fill, swap):
    sides = (dict.fromkeys(keys, 1) | fill for keys in ("ab", "abd", "abc"))

    assert list(merged(*sides, swap=swap)) == [*"abcd", *fill]


@pytest.mark.parametrize("swap", [False, True])
def test_a_new_order_is_no_conflict(swap):
    base, turned = {"p": [{"z": 1, "a": 2}]}, {"p": [{"a": 2, "z": 1}]}
    changed = {"p": [{"z": 1, "a": 3}]}

    assert merged(base, turned, changed, swap=swap) == changed
    assert merged(base, turned, dict(base), swap=swap) == turned


def test_a_dict_that_one_side_removed_and_the_other_reordered_is_gone(repo):
    left = repo.session("s")
    left["m"] = {"z": 1, "a": 2}
    left.commit("base")
    right = left.fork("right")
    del left["m"]
    left.commit("removed")
    right["m"] = {"a": 2, "z": 1}
    right.commit("reordered")

    assert not left.merge(right).conflicts
    assert "m" not in left


# Damage


def forged(cells: Cells, keys: list[object], *, fill: int = 3000) -> bytes:
    """Return the cell of a dict with a tree and these keys as the tail of its order."""
    tree = cells.put({f"k{number:05d}": number for number in range(fill)})
    link = cells.lists.build([tree, cells.settle(cells.put(keys))])
    return cells.tagged_cell(Tag.ORDERED, cells.list_cell(link))


BAD_TAILS = {
    "an unknown key": ["k00001", "nobody"],
    "a key twice": ["k00001", "k00002", "k00001"],
    "nothing": [],
    "the last keys": ["k02998", "k02999"],
    "all keys": [f"k{number:05d}" for number in reversed(range(3000))],
    "no keys": [[1], {"k00001": 1}],
}


@pytest.mark.parametrize("tail", BAD_TAILS.values(), ids=BAD_TAILS)
def test_an_order_that_does_not_fit_its_dict_is_damage(cells, tail):
    cell = forged(cells, tail)

    with pytest.raises(Corrupt):
        cells.load(cell)
    with pytest.raises(Corrupt):
        cells.names(cell)


def test_an_order_of_something_else_is_damage(cells):
    tree = cells.put({f"k{number:05d}": number for number in range(3000)})
    for parts in ([tree], [tree, tree], [cells.put(LONG * 99), tree], [tree, tree, tree]):
        link = cells.lists.build(parts)
        cell = cells.tagged_cell(Tag.ORDERED, cells.list_cell(link))
        with pytest.raises(Corrupt):
            cells.load(cell)
    with pytest.raises(Corrupt):
        cells.load(ORDERED_HEAD + tree)


def test_a_tag_of_order_around_a_short_value_is_damage(cells):
    data = cells.encoding.encode([{"a": 1, "b": 2}, ["a"]])
    packed = bytes((0xC7, len(data), Tag.ORDERED)) + data

    with pytest.raises(Corrupt):
        cells.load(packed)


def test_a_link_that_claims_an_endless_order_is_refused_before_it_is_read(cells):
    tree = cells.put({f"k{number:05d}": number for number in range(3000)})
    endless = (
        bytes((MARK, LIST_KIND)) + Link(cells.objects.put(b"p\x90"), 1 << 60, 1 << 60).encode()
    )
    cell = cells.tagged_cell(Tag.ORDERED, cells.list_cell(cells.lists.build([tree, endless])))

    with pytest.raises(Corrupt):
        cells.load(cell)


@pytest.mark.parametrize("tail", BAD_TAILS.values(), ids=BAD_TAILS)
def test_fsck_finds_an_order_that_does_not_fit(repo, state, tail):
    state["good"] = scattered(3000)
    state.commit("good")
    assert verify(repo, level="deep").ok
    state.write_cell(("bad",), forged(state.cells, tail))
    state.commit("bad")

    assert not verify(repo, level="deep").ok


def test_fsck_finds_names_that_are_not_in_key_order(repo, state):
    state["a"], state["b"] = 1, 2
    state._stage.reset(state.cells.put({"b": 1, "a": 2}))
    state.commit("forged")

    problems = verify(repo, level="deep").problems
    assert "the names of its state are not in key order" in [each.message for each in problems]
