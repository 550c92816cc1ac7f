"""A view shows what is there and what changed, within its budget, and loads nothing it need not."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pytest

from otolith import Disk, Live, Memory, Versioned, view
from otolith.errors import Invalid
from otolith.text.tokens import estimate_tokens
from otolith.types import Hash
from otolith.workspace import Runner

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

MINUTE = 60_000_000


@dataclass
class Trip:
    to: str
    cost: float


class Odd:
    """Nothing knows how to keep it but pickle."""

    loaded = 0

    def __setstate__(self, state):
        Odd.loaded += 1


class Metered(Disk):
    """A disk that counts the bytes asked of it."""

    read_bytes = 0

    def read(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        found = super().read(hashes)
        self.read_bytes += sum(map(len, found.values()))
        return found


class Clock:
    now = 1_000 * MINUTE

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def state(clock):
    return Versioned(Memory(), session="trip", clock=clock, author="ada", secret=lambda: b"k" * 32)


def lines(text):
    """Return the lines of a view, without the title."""
    return text.split("\n")[1:]


# ---------------------------------------------------------------- full


def test_every_name_has_a_line_with_what_it_is_and_its_value(state):
    state["budget"] = 500
    state["plan"] = {"steps": ["search", "book"], "who": "Ada"}
    state["seen"] = {3, 1}
    state["pair"] = (1, None)
    state["when"] = datetime(2026, 1, 2, tzinfo=UTC)

    assert lines(view(state, "full")) == [
        "budget: int = 500",
        "pair: tuple, 2 items, 6 B = (1, None)",
        'plan: dict, 2 keys, 28 B = {steps: ["search", "book"], who: "Ada"}',
        "seen: set, 2 items, 8 B = {1, 3}",
        "when: datetime, 15 B = 2026-01-02 00:00:00+00:00",
    ]


def test_the_title_says_where_and_how_much(state):
    assert view(state, "full") == "trip/main no commit yet: 0 keys, 1 B"
    state["x"] = 1
    assert view(state, "full").startswith("trip/main no commit yet: 1 key, ")
    assert "with uncommitted changes" in view(state, "full")
    commit = state.commit()
    assert view(state, "full").startswith(f"trip/main at {commit.short}: 1 key, ")
    assert "uncommitted" not in view(state, "full")


def test_a_change_in_place_is_shown_before_it_is_committed(state):
    state["plan"] = ["search"]
    state.commit()
    state["plan"].append("book")

    assert lines(view(state, "full")) == ['plan: list, 2 items, 13 B = ["search", "book"]']
    assert "not committed:" in view(state)


def test_a_model_is_shown_by_its_fields(state):
    state["trip"] = Trip("NYC", 3.5)

    shown = lines(view(state, "full"))[0]

    assert shown.startswith(f"trip: {__name__}.Trip, ")
    assert shown.endswith(' = {cost: 3.5, to: "NYC"}')


def test_a_pickle_is_named_and_never_loaded(state):
    state["odd"] = Odd()
    state["more"] = {"list": [Odd()]}
    state.events.append("output", odd=Odd())
    commit = state.commit()
    Odd.loaded = 0

    for shown in (state, state.at(commit), Versioned(state.repo, session="trip")):
        assert f"odd: pickled {__name__}.Odd, " in view(shown, "full")
        view(shown, "recent")

    assert Odd.loaded == 0


def test_what_was_lost_says_why(state):
    state["rows"] = (x for x in "ab")
    state.commit(skip_unstorable=True)

    assert "rows: lost generator, " in view(state, "full")


def test_frames_show_shape_columns_and_a_few_rows(state):
    columns = {"price": [1.5, 2.5, 3.5, 4.5], "name": ["a", "b", "c", "d"]}
    state["pandas"] = pd.DataFrame(columns)
    state["polars"] = pl.DataFrame(columns)
    state["table"] = pa.table(columns)
    rows = ' | 1.5, "a" | 2.5, "b" | 3.5, "c"'

    shown = {line.partition(":")[0]: line for line in lines(view(state, "full"))}

    assert shown["pandas"].startswith("pandas: DataFrame, 4 rows x 2 columns, ")
    assert shown["pandas"].endswith(" = price float64, name str" + rows)
    assert shown["polars"].startswith("polars: DataFrame, 4 rows x 2 columns, ")
    assert shown["polars"].endswith(" = price Float64, name String" + rows)
    assert shown["table"].startswith("table: Table, 4 rows x 2 columns, ")
    assert shown["table"].endswith(" = price float64, name string" + rows)


@pytest.mark.parametrize(
    "index",
    [
        pd.date_range("2026", periods=4, tz="UTC"),
        pd.Index(list("wxyz")),
        pd.MultiIndex.from_product([[1, 2], ["a", "b"]]),
    ],
    ids=["dates", "words", "pairs"],
)
def test_a_frame_may_have_any_index(state, index):
    state["frame"] = pd.DataFrame({"x": range(4), "c": pd.Categorical(list("aabb"))}, index=index)

    assert "DataFrame, 4 rows x 2 columns" in view(state, "full")
    assert "x int64, c category | 0, " in view(state, "full")


def test_an_array_shows_its_type_shape_and_beginning(state):
    state["array"] = np.arange(12).reshape(3, 4)
    state["long"] = np.zeros(1000)

    assert lines(view(state, "full")) == [
        "array: ndarray, 3 x 4, int64, 148 B = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]",
        "long: ndarray, 1,000, float64, 8.1 kB = [" + ", ".join(["0.0"] * 16) + ", …]",
    ]


def test_long_values_are_not_read(tmp_path):
    state = Versioned(Disk(tmp_path / "a.db"))
    state["frame"] = pd.DataFrame(np.random.default_rng(1).random((100_000, 20)))
    state["rows"] = [{"n": n, "text": "word " * 20} for n in range(20_000)]
    state["text"] = "".join(map(str, range(500_000)))
    state.commit()
    state.close()
    store = Metered(tmp_path / "a.db")
    state = Versioned(store)

    for focus in ("full", "recent"):
        shown = view(state, focus)
        assert "frame: DataFrame, 100,000 rows x 20 columns, 16.0 MB" in shown
        assert "rows: list, 20,000 items, " in shown

    assert 0 < store.read_bytes < 2_000_000  # of 23 million; where lists are cut is chance


# ---------------------------------------------------------------- the budget


@pytest.fixture
def crowded(state):
    state["text"] = "It was a dark and stormy night. " * 500
    state["nested"] = {f"key {n}": {"n": n, "words": ["one", "two"] * 5} for n in range(200)}
    state["frame"] = pd.DataFrame({f"c{n}": [1.0, 2.0] for n in range(50)})
    for n in range(60):
        state[f"name {n:02}"] = n * 1000
    state.events.append("note", text="something happened " * 50)
    state.commit("filled " * 20)
    state["name 00"] = "now a text"
    state["text"] = "Then the sun came out. " * 400
    del state["name 01"]
    state.events.append("note", text="and something more " * 50)
    return state


@pytest.mark.parametrize("focus", ["full", "recent"])
@pytest.mark.parametrize("tokens", [1, 2, 7, 20, 50, 100, 333, 1000, 4096])
def test_the_budget_is_kept(crowded, focus, tokens):
    assert estimate_tokens(view(crowded, focus, max_tokens=tokens)) <= tokens
    live = Live(crowded.to_dict())
    live.events.append("note", n=1)
    assert estimate_tokens(view(live, focus, max_tokens=tokens)) <= tokens


def test_every_key_gets_a_line_before_one_gets_a_page(crowded):
    shown = view(crowded, "full", max_tokens=1_000)

    assert all(f"\n{name}: " in shown for name in crowded)
    assert shown.count("stormy") + shown.count("the sun") < 30


def test_short_values_go_before_long_ones(crowded):
    assert "name 07: int = 7000" in view(crowded, "full", max_tokens=800)


def test_what_is_left_out_is_counted(crowded):
    shown = lines(view(crowded, "full", max_tokens=100))

    keys = len([line for line in shown if not line.startswith("…")])
    assert shown[-1] == f"… {len(crowded) - keys} more keys"


def test_a_dict_that_is_too_long_is_shown_key_by_key(crowded):
    shown = lines(view(crowded, "full", max_tokens=3000))
    start = next(at for at, line in enumerate(shown) if line.startswith("nested: dict, 200 keys"))

    assert shown[start + 1].startswith("  key 0: dict, 2 keys, ")
    assert any(line.startswith("  … ") and line.endswith(" more keys") for line in shown)


def test_with_room_enough_everything_is_there(state):
    state["nested"] = {f"key {n}": n for n in range(100)}

    shown = view(state, "full", max_tokens=100_000)

    assert all(f"{n}" in shown for n in range(100))
    assert "…" not in shown


@pytest.mark.parametrize("tokens", [0, -5])
def test_no_room_is_refused(state, tokens):
    with pytest.raises(Invalid, match="at least 1"):
        view(state, max_tokens=tokens)


# ---------------------------------------------------------------- recent


def test_recent_shows_changes_the_latest_first(state, clock):
    state["n"] = 1
    state["plan"] = ["search"]
    first = state.commit("asked")
    clock.now += 5 * MINUTE
    state["n"] = 2
    state["plan"].append("book")
    second = state.commit("planned")
    clock.now += 120 * MINUTE
    state["n"] = 3
    state["new"] = "word"
    del state["plan"]

    assert lines(view(state)) == [
        "not committed:",
        "  ~ n: int = 2 -> 3",
        '  + new: str = "word"',
        '  - plan: list, 2 items, 13 B = ["search", "book"]',
        f"{second.short} 2 hours ago by ada: planned",
        "  ~ n: int = 1 -> 2",
        '  + plan/1: str = "book"',
        f"{first.short} 2 hours ago by ada: asked",
        "  + n: int = 1",
        '  + plan: list, 1 item, 8 B = ["search"]',
    ]


def test_recent_shows_the_latest_events(state, clock):
    for n in range(30):
        state.events.append("tool_call", agent="planner", n=n)
    clock.now += MINUTE

    shown = lines(view(state))

    assert shown[:2] == ["events:", "  29 tool_call: 1 minute ago by planner = {n: 29}"]
    assert shown[-1] == "  … 10 more events"


def test_a_value_of_another_type_shows_both(state):
    state["x"] = 1
    state.commit()
    state["x"] = "one"

    assert '  ~ x: int -> str = 1 -> "one"' in view(state)


def test_a_rollback_is_shown_as_one(state):
    state["x"] = 1
    first = state.commit("one")
    state["x"] = 2
    state.commit("two")
    back = state.rollback(first)

    assert f"{back.short} rollback, just now by ada: rollback to {first.short} one" in view(state)


def test_names_of_otoliths_own_are_not_shown(state):
    state["x"] = 1
    state.events.append("note")
    state.policy("x", "max")
    state.commit()

    for focus in ("full", "recent"):
        assert "\n." not in view(state, focus)
        assert " .events" not in view(state, focus)
        assert ".policy" not in view(state, focus)


def test_a_merge_in_progress_is_told(state):
    state["x"] = 0
    state.commit()
    other = state.fork("other")
    for branch, value in ((state, 1), (other, 2)):
        branch["x"] = value
        branch.commit()
    state.merge(other)

    assert "in the middle of a merge" in view(state)


# ---------------------------------------------------------------- other states


def test_a_snapshot_is_viewed_as_it_was(state, clock):
    state["x"] = 1
    state.events.append("note", n=1)
    first = state.commit("one")
    clock.now += 5 * MINUTE
    state["x"] = 2
    state.commit("two")

    for then in (state.at(first), state.repo.at(first)):
        assert (
            view(then, "full")
            == f"read-only at {first.short}: 1 key, {state_size(then)}\nx: int = 1"
        )
        assert lines(view(then)) == [
            "events:",
            "  0 note: just now = {n: 1}",
            f"{first.short} just now by ada: one",
            "  + x: int = 1",
        ]


def state_size(then):
    return f"{then.size()} B"


def test_live_state_is_viewed_whatever_it_holds(clock):
    state = Live({"plan": {"a": [1, 2]}, "n": 5}, clock=clock)
    state["rows"] = (x for x in "ab")
    state["odd"] = Odd()
    state["frame"] = pd.DataFrame({"x": [1, 2]})
    state["array"] = np.arange(3)
    state["trip"] = Trip("NYC", 3.5)
    state.events.append("note", agent="a", n=1)

    assert lines(view(state, "full")) == [
        "plan: dict, 1 key = {a: [1, 2]}",
        "n: int = 5",
        "rows: generator",
        f"odd: {__name__}.Odd",
        "frame: DataFrame, 2 rows x 1 column = x int64 | 1 | 2",
        "array: ndarray, 3, int64, 24 B = [0, 1, 2]",
        f'trip: {__name__}.Trip = Trip(to: "NYC", cost: 3.5)',
    ]
    assert lines(view(state))[:2] == ["events:", "  0 note: just now by a = {n: 1}"]


def test_a_value_that_contains_itself_is_cut():
    loop: list[object] = []
    loop.append(loop)

    assert estimate_tokens(view(Live({"loop": loop}), "full", max_tokens=100)) <= 100


def test_no_state_is_viewed_as_none():
    assert view(None) == "no state: nothing is stored"


def test_an_unknown_focus_names_the_two(state):
    with pytest.raises(Invalid, match="recent or full"):
        view(state, "everything")  # type: ignore[arg-type]


def test_what_is_no_state_is_refused():
    with pytest.raises(Invalid, match="state must be"):
        view({"x": 1})  # type: ignore[arg-type]


def test_only_what_cannot_be_seen_is_escaped():
    assert '"k\\n€\\u202e"' in str(view(Live({"n": "k\n€\u202e"})))


STEP = """
import json
rows = [1, 2, 3]
class C:
    pass
c = C()
g = (n for n in [1])
open("a.txt", "w").write("hello")
"""


@pytest.fixture
def worked(tmp_path):
    with (
        Versioned(Disk(tmp_path / "a.db", durability="fast")) as state,
        state.workspace(runner=Runner(sandbox="limits"), folder=tmp_path / "work") as workspace,
    ):
        assert workspace.run(STEP).ok
        yield state


def test_variables_and_files_of_a_workspace_are_viewed(worked):
    shown = lines(view(worked, "full"))
    assert len(shown) == 2
    assert shown[0].startswith("(variables): 5 variables = {C: <class ")
    assert "g: <generator, lost: TypeError" in shown[0]
    assert "rows: [1, 2, 3]" in shown[0]
    assert shown[1] == '(files): 1 file = {"a.txt": <5 B>}'
    assert "rows: [1, 2, 3]" in view(worked)


def test_variables_are_viewed_as_they_were_at_a_commit(worked):
    first = worked.head
    with worked.workspace(runner=Runner(sandbox="limits")) as workspace:
        workspace.run("rows.append(4); more = 1")
    assert "rows: [1, 2, 3]" in view(worked.at(first), "full")
    assert "more" not in view(worked.at(first), "full")
    assert "rows: [1, 2, 3, 4]" in view(worked, "full")


def test_many_variables_are_listed_on_lines_of_their_own(worked):
    with worked.workspace(runner=Runner(sandbox="limits")) as workspace:
        workspace.run("for n in range(40): globals()[f'v{n:02}'] = 'word ' * 40")
    shown = view(worked, "full", max_tokens=300)
    assert "\n  v00: str" in shown
    assert "more variables" in shown
    assert estimate_tokens(shown) <= 300


# ---------------------------------------------------------------- texts that several edit


def test_a_text_that_several_edit_is_shown(state):
    state.text("report").append("The cat sat.\n" * 3)

    assert 'report: document, 73 B = "The cat sat.\\nThe cat sat.' in view(state)


def test_without_its_library_a_text_says_what_to_install(state, monkeypatch):
    state.text("report").append("A text that nobody read yet.")
    state.is_clean  # noqa: B018 - it is staged
    monkeypatch.setitem(sys.modules, "loro", None)

    assert "not readable: pip install 'otolith[crdt]'" in view(state)


def test_a_very_long_history_of_edits_is_not_read(state, monkeypatch):
    monkeypatch.setattr("otolith.views.describe._MOST_EDIT_BYTES", 100)
    state.text("report").append("x" * 200)

    assert "<a long history of edits>" in view(state)
