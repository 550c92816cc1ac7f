"""Operations to interrupt at every point, and what must be true of a repo afterwards.

A scenario prepares a store, opens handles and stages edits, and acts. It is first run without a
fault, which tells what everybody sees before and after. With a fault, everybody must see one of the
two, and nothing in between; done again, the act must lead to what it leads to without a fault.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from otolith import core
from otolith.care import prune, verify
from otolith.codecs import Codecs
from otolith.core import BareRepo, Branch
from otolith.errors import MergeConflict
from otolith.stores import Store

Seen = dict[str, Any]
SECOND = 1_000_000


class Ticks:
    """A clock that goes on by a second whenever it is asked."""

    def __init__(self, start: int) -> None:
        self._ticks = count(start)

    def __call__(self) -> int:
        return next(self._ticks) * SECOND


def repo_over(store: Store, *, start: int = 1_000_000) -> BareRepo:
    return core.BareRepo(
        store,
        codec=Codecs(),
        clock=Ticks(start),
        author="test",
        entropy=bytes,
        cache_bytes=0,  # so that as much as possible is asked of the store
    )


@dataclass
class World:
    """A repo whose calls may fail, and handles on it."""

    repo: BareRepo
    handles: dict[str, Branch] = field(default_factory=dict)

    def state(self, name: str = "main") -> Branch:
        return self.handles[name]


Step = Callable[[World], Any]


@dataclass(frozen=True)
class Scenario:
    """Something to do with a repo, in three parts; only the last one meets faults."""

    prepare: Step  # makes history, in a store that is then copied
    stage: Step  # opens handles, and edits
    act: Step
    repeats: bool = True  # whether doing it again after it has happened changes nothing
    collects: bool = False


def view(repo: BareRepo) -> Seen:
    """Return what everybody sees: states and logs of all branches, tags, stashes."""
    seen: Seen = {}
    for ref, hash in repo.store.refs("").items():
        if ref.startswith("."):
            continue
        commit = repo.backend.graph.commit(hash)
        log = [each.message for each in repo.backend.graph.log(commit)]
        seen[ref] = (repo.at(commit).to_dict(), log)
    return seen


def history(repo: BareRepo) -> list[tuple[str, str]]:
    """Return where refs have been, without ids."""
    return [(move.name, move.note) for move in repo.store.moves()]


def write_again(repo: BareRepo) -> None:
    """Commit to a session of its own, as another process would."""
    other = repo.session("another")
    other.counter("n").add(1)
    other.commit("by another")


def check_sound(repo: BareRepo) -> None:
    report = verify(repo, level="deep")
    assert report.ok, report.problems[:3]


# What is prepared

WIDE = {f"k{number:03}": "x" * 140 + str(number) for number in range(250)}


def history_of_three(world: World) -> None:
    state = world.repo.session("s")
    state["wide"] = WIDE
    state.counter("n").add(1)
    state.list("log").append("a")
    state.commit("one")
    state["wide/k007"] = "edited"
    state.list("log").append("b")
    state.commit("two")
    state["x"] = 3
    state.commit("three")


def two_branches(world: World) -> None:
    history_of_three(world)
    main = world.repo.session("s")
    side = main.fork("side")
    side.counter("n").add(10)
    side.list("log").append("side")
    side["theirs"] = "theirs"
    side.commit("side")
    main.counter("n").add(100)
    main.list("log").append("main")
    main["wide/k009"] = "ours"
    main.commit("main")


def two_sides_that_disagree(world: World) -> None:
    history_of_three(world)
    main = world.repo.session("s")
    side = main.fork("side")
    for branch, value in ((side, "theirs"), (main, "ours")):
        branch["x"] = value
        branch["wide/k001"] = value
        branch.counter("n").add(10)
        branch.commit(value)


def criss_cross(world: World) -> None:
    two_branches(world)
    repo = world.repo
    main, side = repo.session("s"), repo.session("s", branch="side")
    ours, theirs = main.head, side.head
    assert ours is not None
    assert theirs is not None
    main.merge(theirs, message="cross")
    side.merge(ours, message="cross")
    for branch, number in ((main, 1000), (side, 10_000)):
        branch.counter("n").add(number)
        branch.commit("after")


def one_that_undid(world: World) -> None:
    history_of_three(world)
    world.repo.session("s").undo()


def with_stash(world: World) -> None:
    history_of_three(world)
    state = world.repo.session("s")
    state.counter("n").add(5)
    state["shelved"] = "yes"
    state.stash()


def with_garbage(world: World) -> None:
    history_of_three(world)
    repo = world.repo
    state = repo.session("s")
    lost = state.fork("lost")
    for number in range(4):
        lost["wide/k020"] = "y" * 200 + str(number)
        lost["blob"] = bytes([number]) * 3000
        lost.commit(f"lost {number}")
    repo.delete_branch("s", "lost")
    for number in range(4):
        state["wide/k021"] = "z" * 200 + str(number)
        state.commit(f"kept {number}")
    state.undo()
    state.undo()


# What is staged


def nothing(world: World) -> None:
    """Stage nothing."""


def open_main(world: World) -> None:
    world.handles["main"] = world.repo.session("s")


def edit(world: World) -> None:
    open_main(world)
    state = world.state()
    state.counter("n").add(1)
    state.list("log").append("c")
    state.list("log").append("d")
    state["wide/k030"] = {"deep": {"er": [1, 2, 3]}}
    del state["wide/k231"]
    state["blob"] = b"0123456789" * 400
    # Last, so that they wait until the commit looks for where they go.
    state["wide/k060"] = state["wide/k120"] = "late"


def edit_little(world: World) -> None:
    open_main(world)
    state = world.state()
    state.counter("n").add(1)
    state["x"] = 4
    state["wide/k060"] = "late"


def edit_and_lose_the_race(world: World) -> None:
    edit(world)
    other = world.repo.session("s")
    other.counter("n").add(10)
    other.list("log").append("theirs")
    other["theirs"] = 1
    other.commit("theirs")


def edit_and_disagree(world: World) -> None:
    edit_and_lose_the_race(world)
    world.state()["theirs"] = 2


def take_up_stash(world: World) -> None:
    open_main(world)
    world.state().unstash()
    world.state().counter("n").add(1)


def edit_beside_stash(world: World) -> None:
    open_main(world)
    other = world.repo.session("s")
    other.counter("n").add(10)
    other.commit("theirs")
    world.state().refresh()


def conflict(world: World) -> None:
    open_main(world)
    state = world.state()
    assert not state.merge("side").ok
    state.resolve_conflict("x", take="theirs")
    state.resolve_conflict("wide/k001", value="both")


# What is done


def commit(world: World) -> None:
    world.state().commit("four")


def commit_with_fence(world: World) -> None:
    world.state().commit("four", fences={"lease": 7})


def commit_or_decide(world: World) -> None:
    state = world.state()
    try:
        state.commit("four")
    except MergeConflict:
        state["theirs"] = 3
        state.commit("four")


def merge(world: World) -> None:
    assert world.state().merge("side", message="joined").ok


def merge_and_decide(world: World) -> None:
    state = world.state()
    if state.merging is None and not state.conflicts:
        state.merge("side", message="joined")
    for each in state.conflicts:
        state.resolve_conflict(each.path, take="theirs")
    state.commit("joined")


def fast_forward(world: World) -> None:
    world.state().merge("s/main", message="joined")


def stash(world: World) -> None:
    world.state().stash()


def unstash(world: World) -> None:
    if world.state().is_clean:
        world.state().unstash()


def unstash_and_commit(world: World) -> None:
    unstash(world)
    world.state().commit("from the stash")


def fork(world: World) -> None:
    if "new" not in world.repo.branches("s"):
        world.state().fork("new")


def tag(world: World) -> None:
    world.repo.tag("v1", world.state().resolve("@~1"), force=True)


def delete_branch(world: World) -> None:
    if "side" in world.repo.branches("s"):
        world.repo.delete_branch("s", "side")


def collect(world: World) -> None:
    prune(world.repo, expire_seconds=0)


def collect_nothing_old(world: World) -> None:
    prune(world.repo, expire_seconds=10**9)


def look(world: World) -> None:
    assert verify(world.repo, level="deep").ok
    assert view(world.repo)


def undo(world: World) -> None:
    world.state().undo()


def redo(world: World) -> None:
    world.state().redo()


def roll_back(world: World) -> None:
    world.state().rollback(steps=2)


def edit_the_first(world: World) -> None:
    open_main(world)
    world.state()["a"] = {"b": [1, 2, 3]}
    world.state().counter("n").add(1)


def open_fork(world: World) -> None:
    world.handles["main"] = world.repo.session("s", branch="old")


def old_branch(world: World) -> None:
    history_of_three(world)
    world.repo.session("s").fork("old", at="@~2")


SCENARIOS: dict[str, Scenario] = {
    "commit": Scenario(history_of_three, edit, commit),
    "commit little": Scenario(history_of_three, edit_little, commit),
    "first commit": Scenario(nothing, edit_the_first, commit),
    "commit with a fence": Scenario(history_of_three, edit, commit_with_fence),
    "commit that lost a race": Scenario(history_of_three, edit_and_lose_the_race, commit),
    "commit that conflicts": Scenario(history_of_three, edit_and_disagree, commit_or_decide),
    "commit that takes the stash down": Scenario(with_stash, take_up_stash, commit),
    "stash": Scenario(history_of_three, edit, stash),
    "unstash and commit": Scenario(with_stash, edit_beside_stash, unstash_and_commit),
    "merge that is a fast-forward": Scenario(old_branch, open_fork, fast_forward),
    "merge of three": Scenario(two_branches, open_main, merge),
    "merge with conflicts": Scenario(two_sides_that_disagree, open_main, merge_and_decide),
    "merge, decided, committed": Scenario(two_sides_that_disagree, conflict, commit),
    "merge of a criss-cross": Scenario(criss_cross, open_main, merge),
    "undo": Scenario(history_of_three, open_main, undo, repeats=False),
    "redo": Scenario(one_that_undid, open_main, redo, repeats=False),
    "rollback": Scenario(history_of_three, open_main, roll_back, repeats=False),
    "fork": Scenario(history_of_three, edit, fork),
    "tag": Scenario(history_of_three, edit, tag),
    "delete a branch": Scenario(two_branches, open_main, delete_branch),
    "collect": Scenario(with_garbage, open_main, collect, collects=True),
    "collect nothing": Scenario(with_garbage, edit, collect_nothing_old, collects=True),
    "verify": Scenario(criss_cross, edit, look),
}
