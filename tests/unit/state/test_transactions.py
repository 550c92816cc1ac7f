"""Read, decide and write as one: `transact`, and `commit(expect=…)`."""

from __future__ import annotations

from functools import partial
from threading import Thread
from typing import Any

import pytest

import otolith
from otolith import Repo, Versioned
from otolith.care import prune
from otolith.errors import (
    AlreadyCommitted,
    Conflict,
    Contention,
    Fenced,
    Invalid,
    MergeConflict,
    RefNotFound,
    StaleRef,
    Unavailable,
    Uncommitted,
    Unstorable,
)
from otolith.stores import Batch
from otolith.testing import Fault, FaultyStore
from tests.patience import HANG_SECONDS


@pytest.fixture
def repo():
    with otolith.open("memory:") as repo:
        state = repo.session("shop")
        state["stock"], state["log"] = 1, []
        state.commit("opened")
        yield repo


def sell(state):
    """Sell one, if there is one."""
    if state["stock"] == 0:
        return False
    state["stock"] -= 1
    state["log"].append("sold")
    return True


def overtaken(repo, times=1):
    """Return `sell`, before whose commit another handle commits, the first few times."""
    left = [times]

    def edit(state):
        result = sell(state)
        if left[0]:
            left[0] -= 1
            other = repo.session("shop")
            other.counter("visits").add(1)
            other.commit("visited")
        return result

    return edit


# transact


def test_of_two_buyers_one_gets_the_last_item(repo):
    first, second = repo.session("shop"), repo.session("shop")

    assert first.transact(sell) is True
    assert second.transact(sell) is False

    assert repo.session("shop").to_dict() == {"stock": 0, "log": ["sold"]}


def test_threads_with_a_handle_each_sell_what_there_is_and_no_more(tmp_path):
    sold: list[bool] = []
    with otolith.open(tmp_path / "shop.db") as repo:
        state = repo.session("shop")
        state["stock"], state["log"] = 7, []
        state.commit()

        def buy():
            own = repo.session("shop")
            sold.extend(own.transact(sell) for _ in range(4))

        buyers = [Thread(target=buy) for _ in range(4)]
        for buyer in buyers:
            buyer.start()
        for buyer in buyers:
            buyer.join(HANG_SECONDS)

        assert sorted(sold) == [False] * 9 + [True] * 7
        assert repo.session("shop").to_dict() == {"stock": 0, "log": ["sold"] * 7}


def test_a_transaction_that_was_overtaken_runs_again_on_the_new_head(repo):
    state = repo.session("shop")
    log = state["log"]

    assert state.transact(overtaken(repo), "sold one") is True

    assert (state["stock"], state["visits"], log) == (0, 1, ["sold"])
    assert state["log"] is log
    assert state.head.message == "sold one"


def behind(repo):
    """Return a handle after whose head another one has committed."""
    state = repo.session("shop")
    other = repo.session("shop")
    other["stock"] = 2
    other.commit("delivered")
    return state


def test_a_transaction_without_a_look_first_sells_from_what_is_there(repo):
    state = behind(repo)
    seen = []

    def edit(state):
        seen.append(state["stock"])
        return sell(state)

    assert state.transact(edit, look_first=False) is True
    assert (seen, state["stock"]) == ([1, 2], 1)
    assert state.transact(edit, look_first=False) is True
    assert (seen, state["stock"]) == ([1, 2, 1], 0)


def test_a_transaction_that_changes_nothing_of_an_outdated_state_runs_again(repo):
    state = behind(repo)

    assert state.transact(lambda state: state["stock"] > 1, look_first=False) is True
    assert state.transact(lambda state: state["stock"] > 2, look_first=False) is False


def test_an_error_over_an_outdated_state_is_not_raised(repo):
    state = behind(repo)

    def take_two(state):
        state["log"].append("asked")
        if state["stock"] < 2:
            raise ValueError(state["stock"])
        state["stock"] -= 2

    state.transact(take_two, look_first=False)
    assert (state["stock"], state["log"]) == (0, ["asked"])
    with pytest.raises(ValueError, match="0"):
        state.transact(take_two, look_first=False)
    assert (state.is_clean, state["log"]) == (True, ["asked"])


def test_an_interruption_is_raised_whatever_others_have_done(repo):
    state = behind(repo)

    def edit(state):
        state["stock"] = 9
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        state.transact(edit, look_first=False)
    assert state.is_clean


def test_a_transaction_that_is_overtaken_each_time_gives_up_and_leaves_nothing(repo):
    state = repo.session("shop")

    with pytest.raises(Contention, match="moved 3 times") as refused:
        state.transact(overtaken(repo, times=9), attempts=3)

    assert isinstance(refused.value, Conflict)
    assert state.is_clean
    assert (state.refresh(), state["stock"], state["visits"]) == (state.head, 1, 3)


def test_a_transaction_refuses_to_take_along_what_was_staged_before(repo):
    state = repo.session("shop")
    state["log"].append("by hand")

    with pytest.raises(Uncommitted, match="transact"):
        state.transact(sell)

    assert (state["stock"], state["log"]) == (1, ["by hand"])


def test_an_error_in_a_transaction_discards_its_edits(repo):
    state = repo.session("shop")

    def fail(state):
        sell(state)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        state.transact(fail)

    assert state.is_clean
    assert (state["stock"], state["log"]) == (1, [])


def test_a_value_that_cannot_be_stored_discards_the_transaction(repo):
    state = repo.session("shop")

    with pytest.raises(Unstorable):
        state.transact(lambda state: state.update(stock=0, lock=(each for each in [1])))

    assert state.to_dict() == {"stock": 1, "log": []}


@pytest.mark.parametrize(
    "verb",
    [
        lambda state: state.commit(),
        lambda state: state.merge("main"),
        lambda state: state.undo(),
        lambda state: state.stash(),
        lambda state: state.transact(sell),
    ],
    ids=["commit", "merge", "undo", "stash", "transact"],
)
def test_a_transaction_cannot_be_committed_in_halves(repo, verb):
    state = repo.session("shop")
    head = state.head

    with pytest.raises(Invalid, match="inside a transaction"):
        state.transact(lambda state: (sell(state), verb(state)))

    assert (state.is_clean, repo.session("shop").head) == (True, head)


def test_a_transaction_starts_where_others_have_left_off_and_may_be_the_first_commit(repo):
    old, new = repo.session("shop"), repo.session("shop")
    new["stock"] = 5
    new.commit()
    assert old.transact(lambda state: state["stock"]) == 5

    first = repo.session("other")
    first.transact(lambda state: state.update(a=1), "first")
    assert repo.session("other").to_dict() == {"a": 1}


def test_a_transaction_on_a_deleted_branch_says_so(repo):
    state = repo.session("shop").fork("side")
    repo.delete_branch("shop", "side")

    with pytest.raises(RefNotFound, match="deleted"):
        state.transact(sell)

    assert state.is_clean


# A transaction without a reply


class Outage(FaultyStore):
    """A store that answers nothing from a write on, until it is over.

    It is over after as many `questions` as a transaction asks; 0: it stays away.
    """

    def __init__(self, repo, *, has_landed, questions=0):
        super().__init__(repo.store)
        self._kind: Any = "lose" if has_landed else "refuse"
        self._repo, self._questions = repo, questions
        self.patience_seconds = []
        repo.backend.store, repo.backend.pauses = self, self._pauses

    def write(self, batch):
        if not self.plan:
            self.plan = [Fault("write", kind=self._kind), Fault("ref")]
        super().write(batch)

    def over(self):
        """Let the store answer."""
        self._repo.backend.store = self.inner

    def _pauses(self, limit_seconds):
        self.patience_seconds.append(limit_seconds)
        for number in range(self._questions):
            if number + 1 == self._questions:
                self.over()
            yield


def stock(repo):
    return repo.session("shop").to_dict()


@pytest.mark.parametrize("has_landed", [False, True])
def test_a_transaction_waits_for_a_store_and_finds_out_whether_it_landed(repo, has_landed):
    state = repo.session("shop")
    outage = Outage(repo, has_landed=has_landed, questions=3)

    assert state.transact(sell, "sold one", patience_seconds=7) is True

    assert outage.patience_seconds == [7]
    assert stock(repo) == {"stock": 0, "log": ["sold"]}
    assert len([*state.log()]) == 2
    assert state.is_clean


def unanswered(repo, *, has_landed, edit=sell):
    """Return a state whose last transaction got no reply; the store answers again."""
    state = repo.session("shop")
    outage = Outage(repo, has_landed=has_landed)
    with pytest.raises(Unavailable, match="nobody knows whether it has landed") as caught:
        state.transact(edit, "sold one")
    assert "call transact with the same function again" in caught.value.hint
    outage.over()
    return state


@pytest.mark.parametrize("has_landed", [False, True])
def test_a_transaction_without_a_reply_is_settled_by_the_next_commit(repo, has_landed):
    state = unanswered(repo, has_landed=has_landed)

    state.commit("again")

    assert stock(repo) == {"stock": 0, "log": ["sold"]}
    assert len([*state.log()]) == 2


@pytest.mark.parametrize("has_landed", [False, True])
def test_what_a_transaction_carries_goes_with_it_once(repo, has_landed):
    def propose(state):
        draft = state.draft(lambda state: state.update(stock=5))
        state.carry(fences={"shop": 7}, reads={"draft": draft.hash})
        state["proposed"] = draft.id

    state = unanswered(repo, has_landed=has_landed, edit=propose)

    carried = state.commit("again")
    assert carried.reads == {"draft": carried.reads["draft"]}
    assert repo.at(carried.reads["draft"])["stock"] == 5
    state["stock"] = 3
    assert state.commit("next").reads == {}
    with pytest.raises(Fenced):
        state.commit(allow_empty=True, fences={"shop": 6})


@pytest.mark.parametrize("has_landed", [False, True])
def test_the_same_transaction_again_counts_once(repo, has_landed):
    state = unanswered(repo, has_landed=has_landed)

    assert state.transact(sell, "sold one") is True

    assert stock(repo) == {"stock": 0, "log": ["sold"]}
    assert state.transact(sell) is False, "this one is another call"


@pytest.mark.parametrize("has_landed", [False, True])
def test_the_same_transaction_again_counts_once_though_others_have_committed(repo, has_landed):
    state = unanswered(repo, has_landed=has_landed)
    other = repo.session("shop")
    other["stock"] += 10
    other.commit("delivered")

    assert state.transact(sell, "sold one") is True

    assert stock(repo) == {"stock": 10, "log": ["sold"]}


@pytest.mark.parametrize("has_landed", [False, True])
def test_another_transaction_runs_after_the_open_one_is_settled(repo, has_landed):
    state = unanswered(repo, has_landed=has_landed)

    def deliver(state):
        state["stock"] += 10

    state.transact(deliver, "delivered")

    assert stock(repo)["stock"] == (10 if has_landed else 11)


def made_again(times):
    """Return a function that has the code, and perhaps the values, of another one."""
    return lambda state: [sell(state) for _ in range(times)] == [True] * times


def test_a_transaction_that_may_be_the_same_is_not_run_if_that_has_landed(repo):
    selling = [made_again(1), made_again(1)]
    state = unanswered(repo, has_landed=True, edit=selling[0])

    with pytest.raises(AlreadyCommitted) as caught:
        state.transact(selling[1])

    assert caught.value.commit == state.head.id
    assert stock(repo)["stock"] == 0
    assert state.transact(selling[1]) is False


@pytest.mark.parametrize("made", [partial(partial, sell), partial(made_again, 1)])
def test_a_transaction_that_may_be_the_same_is_run_if_that_has_not_landed(repo, made):
    state = unanswered(repo, has_landed=False, edit=made())

    assert state.transact(made()) is True
    assert stock(repo) == {"stock": 0, "log": ["sold"]}


def test_a_transaction_that_was_given_up_is_over(repo):
    state = unanswered(repo, has_landed=True)

    state.discard()

    assert state.transact(sell) is False


def test_edits_beside_an_open_transaction_are_not_part_of_the_next(repo):
    state = unanswered(repo, has_landed=True)
    state["note"] = "mine"

    with pytest.raises(Uncommitted, match="staged"):
        state.transact(sell)

    state.commit("mine")
    assert stock(repo) == {"stock": 0, "log": ["sold"], "note": "mine"}


def test_a_commit_that_lands_after_it_was_looked_for_counts_once(repo):
    """The first try is on its way while the second is sent, and is faster."""
    state, store = repo.session("shop"), FaultyStore(repo.store)
    late: list[Batch] = []

    class Slow(FaultyStore):
        def write(self, batch):
            if not late:
                late.append(batch)
                raise Unavailable("no reply yet")
            if len(late) == 1:
                late.append(batch)
                store.write(late[0])
            store.write(batch)

    repo.backend.store, repo.backend.pauses = Slow(store), lambda limit_seconds: [None]

    assert state.transact(sell, "sold one") is True

    assert stock(repo) == {"stock": 0, "log": ["sold"]}


@pytest.mark.parametrize("expect", [True, False])
def test_a_commit_again_is_the_one_that_landed_though_others_have_committed(repo, expect):
    state = repo.session("shop")
    seen, outage = state.head, Outage(repo, has_landed=True)
    state["stock"] = 0
    expected = {"expect": seen} if expect else {}
    with pytest.raises(Unavailable, match=r"commit\(\) again finds out"):
        state.commit("sold", **expected)
    outage.over()
    other = repo.session("shop")
    other["visits"] = 1
    other.commit("visited")

    state.commit("sold", **expected)

    assert [each.message for each in repo.session("shop").log()] == ["visited", "sold", "opened"]


def test_an_error_of_the_function_is_not_waited_for(repo):
    def fail(state):
        raise Unavailable("a service of somebody else")

    repo.backend.pauses = lambda limit_seconds: pytest.fail("waited")
    with pytest.raises(Unavailable, match="somebody else"):
        repo.session("shop").transact(fail)


@pytest.mark.parametrize("patience", [-1, float("nan"), float("inf"), "3"])
def test_patience_is_a_number_of_seconds(repo, patience):
    with pytest.raises(Invalid, match="patience_seconds"):
        repo.session("shop").transact(sell, patience_seconds=patience)


@pytest.mark.parametrize("attempts", [0, -1, "3", True, 1.0])
def test_attempts_are_counted_from_one(repo, attempts):
    with pytest.raises(Invalid, match="attempts"):
        repo.session("shop").transact(sell, attempts=attempts)


def test_a_coroutine_function_is_not_a_transaction(repo):
    async def edit(state):
        state["stock"] = 0

    with pytest.raises(Invalid, match="coroutine"):
        repo.session("shop").transact(edit)


# commit(expect=…)


def test_a_commit_lands_on_the_commit_it_expects(repo):
    state = repo.session("shop")
    head = state.head
    state["stock"] = 3
    made = state.commit(expect=head)
    state["stock"] = 4
    assert state.commit(expect=made.id).parents == (made.id,)


def test_a_commit_that_expects_another_head_is_refused_and_stays_staged(repo):
    one, two = repo.session("shop"), repo.session("shop")
    head = two.head
    one["visits"] = 1
    first = one.commit()
    two["stock"] = 9

    with pytest.raises(StaleRef, match="still staged") as refused:
        two.commit(expect=head)

    assert (refused.value.expected, refused.value.actual) == (head.hash, first.hash)
    assert two["stock"] == 9
    two.commit()
    assert repo.session("shop").to_dict() == {"stock": 9, "log": [], "visits": 1}


def test_a_commit_that_expects_a_head_this_handle_has_not_read_is_refused(repo):
    one, two = repo.session("shop"), repo.session("shop")
    one["visits"] = 1
    first = one.commit()
    two["stock"] = 9

    with pytest.raises(StaleRef):
        two.commit(expect=first)

    assert not two.is_clean


def test_without_edits_the_expected_head_is_checked_too(repo):
    one, two = repo.session("shop"), repo.session("shop")
    head = two.head
    assert two.commit(expect=head) == head
    one["visits"] = 1
    one.commit()
    with pytest.raises(StaleRef):
        two.commit(expect=head)


def test_the_first_commit_expects_no_head(repo):
    one, two = repo.session("new"), repo.session("new")
    one["a"], two["b"] = 1, 2
    one.commit(expect=None)
    with pytest.raises(StaleRef):
        two.commit(expect=None)
    with pytest.raises(StaleRef):
        repo.session("new").commit(expect=None)


def test_a_commit_of_nothing_is_refused_too_when_others_were_faster(repo):
    one, two = repo.session("shop"), repo.session("shop")
    head = two.head
    one["visits"] = 1
    one.commit()

    with pytest.raises(StaleRef, match="still staged"):
        two.commit(expect=head)
    assert two.refresh() == two.commit(expect=one.head) == one.head


# the policy error


def test_two_equal_edits_under_the_policy_error_do_not_both_succeed(repo):
    state = repo.session("shop")
    state.policy("stock", "error")
    state.commit()
    one, two = repo.session("shop"), repo.session("shop")
    one["stock"] -= 1
    two["stock"] -= 1
    one.commit()

    with pytest.raises(MergeConflict) as refused:
        two.commit()

    assert refused.value.paths == ("stock",)
    assert two.conflicts[0].why == "both sides made the same edit"


def test_edits_that_depend_on_nothing_are_merged_and_not_made_again(tmp_path):
    with otolith.open(str(tmp_path / "a.db")) as repo:
        mine, other = repo.session("a"), repo.session("a")
        calls = []

        def add(state):
            calls.append(1)
            if len(calls) == 1:
                other.counter("n").add(10)
                other.commit()
            state.counter("n").add(1)

        mine.transact(add, if_moved="merge")
        assert (len(calls), mine["n"]) == (1, 11)


def test_merged_edits_that_conflict_are_made_again_on_the_new_head(tmp_path):
    with otolith.open(str(tmp_path / "a.db")) as repo:
        mine, other = repo.session("a"), repo.session("a")
        seen = []

        def write(state):
            seen.append(state.get("x"))
            if len(seen) == 1:
                other["x"] = "theirs"
                other.commit()
            state["x"] = "mine"

        mine.transact(write, if_moved="merge")
        assert seen == [None, "theirs"]
        assert (mine["x"], mine.conflicts, mine.is_clean) == ("mine", [], True)


def test_a_transaction_refuses_an_answer_to_lost_races_that_it_does_not_know():
    with pytest.raises(Invalid, match="if_moved must be"):
        Versioned().transact(lambda state: None, if_moved="overwrite")  # type: ignore[arg-type]


def test_a_handle_commits_as_its_author_and_so_do_its_forks():
    state = Versioned(author="host")
    state.commit_as("planner")
    state["x"] = 1
    state.commit("one")
    fork = state.fork("try")
    fork["x"] = 2
    fork.commit("two")
    fork["x"] = 3
    assert [each.author for each in fork.log()] == ["planner"] * 2
    assert fork.commit("three", author="critic").author == "critic"


def test_a_handle_with_a_lower_fence_than_another_is_refused():
    state = Versioned()
    old, new = (Versioned(state.repo) for _ in range(2))
    old.commit_as("a", fences={"driver": 1})
    new.commit_as("b", fences={"driver": 2})
    new["x"] = 1
    new.commit()
    old["x"] = 2
    with pytest.raises(Fenced):
        old.commit()


def test_a_draft_is_a_commit_that_no_branch_has():
    state = Versioned()
    state["x"] = 1
    first = state.commit("one")

    def propose(state):
        draft = state.draft(lambda state: state.update(x=2), "better")
        assert (draft.parents, state.head, state["x"]) == ((first.id,), first, 1)
        state.carry(reads={"draft": draft.hash})
        state["proposed"] = True
        return draft

    draft = state.transact(propose)
    assert state.to_dict() == {"x": 1, "proposed": True}
    proposed = next(state.log())
    assert proposed.reads == {"draft": draft.id}
    prune(state.repo, expire_seconds=0)
    assert Repo(state.repo.store).at(draft.id)["x"] == 2
    with pytest.raises(Invalid, match="not inside a transaction"):
        state.draft(lambda state: state.commit("landed"))
    state["y"] = 1
    assert state.draft(lambda state: state.update(x=3)).parents == (proposed.id,)
    assert state.to_dict() == {"x": 1, "proposed": True, "y": 1}


def test_a_draft_that_is_given_up_is_not_written():
    state = Versioned()
    state.commit("one", allow_empty=True)
    before = state.repo.store.usage().objects
    state.draft(lambda state: state.update(x=2))
    state.discard()
    state["y"] = 1
    assert state.commit("two").reads == {}
    assert state.repo.store.usage().objects == before + 2


def test_a_merge_can_be_a_part_of_a_transaction():
    state = Versioned()
    state["x"], state["y"] = 1, 1
    state.commit("one")
    other = state.fork("other")
    other["x"] = 2
    draft = other.commit("better")

    def land(state):
        state["landed"] = True
        return state.stage_merge(draft)

    assert state.transact(land) == []
    assert (state["x"], state["landed"]) == (2, True)
    assert next(state.log()).parents[1:] == (draft.id,)


def test_a_staged_merge_has_our_side_of_a_conflict_and_returns_it():
    state = Versioned()
    state["x"] = 1
    state.commit("one")
    other = state.fork("other")
    other["x"] = 2
    draft = other.commit("theirs")
    state["x"] = 3
    state.commit("ours")
    (conflict,) = state.stage_merge(draft)
    assert (conflict.path, conflict.ours, conflict.theirs) == ("x", 3, 2)
    assert state.conflicts == []
    assert state.commit("both").parents[1:] == (draft.id,)
    assert state["x"] == 3


def test_a_conflict_that_the_function_raises_is_its_own(repo):
    calls = []

    def fail(state):
        calls.append(state.update(x=1))
        raise MergeConflict("mine", paths=("x",))

    state = repo.session("a")
    with pytest.raises(MergeConflict, match="mine"):
        state.transact(fail)
    assert (len(calls), state.is_clean) == (1, True)
