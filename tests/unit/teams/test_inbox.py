"""The inbox: conflicts wait as values, and are decided once."""

from __future__ import annotations

from datetime import date

import pytest

import otolith
from otolith.agent import Agent, Reply, TokenUsage
from otolith.conversation import Message, Role, Text
from otolith.errors import BadPath, Conflict, Invalid, KeyNotFound, Uncommitted
from otolith.teams import InboxConflict


@pytest.fixture
def repo(tmp_path):
    with otolith.open(str(tmp_path / "team.db")) as repo:
        yield repo


@pytest.fixture
def team(repo):
    team = repo.team("research", member="planner")
    team.transact(lambda state: state.update(owner="nobody", notes=["a"], stock=1), "begin")
    return team


def fork_of(team, name, author, **changes):
    fork = team.state.fork(name)
    fork.commit_as(author)
    fork.update(changes)
    fork.commit("work on a fork")
    return fork


def test_what_merges_is_merged_and_what_conflicts_goes_to_the_inbox(team):
    fork = fork_of(team, "try", "critic", owner="critic", notes=["a", "b"], more=1)
    team.transact(lambda state: state.update(owner="planner", notes=["a", "c"]))
    (conflict,) = team.merge(fork)
    assert team.state.to_dict() == {
        "owner": "planner",
        "notes": ["a", "b", "c"],
        "stock": 1,
        "more": 1,
    }
    assert (conflict.path, conflict.kind) == ("owner", "edit/edit")
    assert (conflict.base, conflict.ours, conflict.theirs) == ("nobody", "planner", "critic")
    assert (conflict.our_author, conflict.their_author) == ("planner", "critic")
    assert team.state.head.parents[1] == fork.head.id
    assert [each.message for each in conflict.history("theirs")] == ["work on a fork"]
    assert [each.author for each in conflict.history("ours")] == ["planner"]
    with pytest.raises(Invalid):
        conflict.history("base")


@pytest.mark.parametrize("key", ["", "a/b", "~", 7, None, (1, "x"), date(2026, 11, 18), b"raw"])
def test_a_conflict_at_a_key_of_any_type_waits_and_is_decided(repo, team, key):
    team.transact(lambda state: state.update(days={key: {"n": "A"}}))
    fork = team.state.fork("try")
    fork["days"][key]["n"] = "C"
    fork.commit("work on a fork")
    team.state["days"][key]["n"] = "B"
    team.state.commit()
    (conflict,) = team.merge(fork)
    assert (conflict.keys, conflict.ours, conflict.theirs) == (("days", key, "n"), "B", "C")
    assert len(conflict.history("theirs")) == 1
    team.resolve(repo.team("research").inbox[0], take="theirs")
    assert team.state["days"] == {key: {"n": "C"}}


def test_a_conflict_says_whether_the_path_was_changed_since(team):
    fork = fork_of(team, "try", "critic", owner="critic", stock=5)
    team.transact(lambda state: state.update(owner="planner", stock=2))
    team.merge(fork)
    team.transact(lambda state: state.update(owner="nobody yet"))
    assert {each.path: each.is_changed for each in team.inbox} == {"owner": True, "stock": False}
    team.transact(lambda state: state.update(owner="planner"))
    assert not any(each.is_changed for each in team.inbox)


def test_work_goes_on_while_conflicts_wait(team):
    fork = fork_of(team, "try", "critic", owner="critic")
    team.transact(lambda state: state.update(owner="planner"))
    team.merge(fork)
    team.transact(lambda state: state.update(stock=0))
    assert team.state.conflicts == []
    assert len(team.inbox) == 1


@pytest.mark.parametrize(
    ("decision", "value"),
    [
        ({"take": "ours"}, "planner"),
        ({"take": "theirs"}, "critic"),
        ({"take": "base"}, "nobody"),
        ({"value": "both"}, "both"),
    ],
)
def test_a_decision_is_a_side_or_a_value(repo, team, decision, value):
    fork = fork_of(team, "try", "critic", owner="critic")
    team.transact(lambda state: state.update(owner="planner"))
    (conflict,) = team.merge(fork)
    repo.team("research", member="ann").resolve(conflict, **decision)
    team.state.refresh()
    assert team.state["owner"] == value
    assert team.state.head.author == "ann"
    assert list(team.inbox) == []


def test_a_removal_on_one_side_can_be_taken(team):
    fork = team.state.fork("try")
    del fork["owner"]
    fork.commit()
    team.transact(lambda state: state.update(owner="planner"))
    (conflict,) = team.merge(fork)
    assert (conflict.kind, conflict.absent) == ("edit/delete", ("theirs",))
    team.resolve(conflict, take="theirs")
    assert "owner" not in team.state


def test_a_conflict_is_decided_once(repo, team):
    fork = fork_of(team, "try", "critic", owner="critic")
    team.transact(lambda state: state.update(owner="planner"))
    (conflict,) = team.merge(fork)
    team.resolve("owner", take="theirs")
    with pytest.raises(KeyNotFound, match="was decided already"):
        repo.team("research", member="ann").resolve(conflict, take="ours")


def test_a_decision_on_a_value_that_has_changed_since_is_refused(team):
    fork = fork_of(team, "try", "critic", owner="critic")
    team.transact(lambda state: state.update(owner="planner"))
    (conflict,) = team.merge(fork)
    team.transact(lambda state: state.update(owner="ann"))
    with pytest.raises(Conflict, match="owner was changed since you looked"):
        team.resolve(conflict, take="theirs")
    assert team.state["owner"] == "ann"
    team.resolve(team.inbox["owner"], take="theirs")
    assert team.state["owner"] == "critic"


@pytest.mark.parametrize(
    "decision", [{}, {"take": "ours", "value": 1}, {"take": "mine"}], ids=["none", "two", "unknown"]
)
def test_a_decision_that_makes_no_sense_is_refused(team, decision):
    fork = fork_of(team, "try", "critic", owner="critic")
    team.transact(lambda state: state.update(owner="planner"))
    team.merge(fork)
    with pytest.raises(Invalid):
        team.resolve("owner", **decision)
    with pytest.raises(KeyNotFound):
        team.resolve("nowhere", take="ours")
    assert len(team.inbox) == 1


@pytest.mark.parametrize("which", [None, 5, 1.5, b"owner", ["owner"]])
def test_a_conflict_is_named_by_itself_its_path_or_its_id(team, which):
    fork = fork_of(team, "try", "critic", owner="critic")
    team.transact(lambda state: state.update(owner="planner"))
    team.merge(fork)
    with pytest.raises(Invalid, match=r"a conflict of team\.inbox"):
        team.resolve(which, take="ours")
    if which != 5:
        with pytest.raises(Invalid, match="a number, a path or an id"):
            team.inbox[which]
    with pytest.raises(KeyNotFound, match="there is no conflict ''"):
        team.inbox[""]
    assert len(team.inbox) == 1


def test_what_checks_answers_is_a_function(team):
    with pytest.raises(Invalid, match="check must be a function"):
        team.resolve_all(lambda conflict: 1, check=5)


def test_a_resolver_decides_and_leaves_what_it_cannot(team):
    fork = fork_of(team, "try", "critic", owner="critic", stock=7, notes="theirs", plan="x")
    team.transact(lambda state: state.update(owner="planner", stock=3, notes="ours", plan="y"))
    assert {each.path for each in team.merge(fork)} == {"owner", "stock", "notes", "plan"}

    def resolver(conflict: InboxConflict):
        match conflict.path:
            case "owner":
                return f"{conflict.ours} and {conflict.theirs}"
            case "stock":
                raise ZeroDivisionError("hm")
            case "notes":
                return NotImplemented
            case _:
                return lambda: "cannot be stored"

    left = team.resolve_all(resolver)
    assert team.state["owner"] == "planner and critic"
    notes = {each.path: each.note for each in left}
    assert notes.keys() == {"stock", "notes", "plan"}
    assert notes["stock"] == "the resolver raised ZeroDivisionError: hm"
    assert notes["notes"] == ""
    assert "cannot be taken" in notes["plan"] or "plan" not in notes
    assert team.state["stock"] == 3
    assert team.state.is_clean


def test_an_answer_is_checked(team):
    fork = fork_of(team, "try", "critic", stock=7)
    team.transact(lambda state: state.update(stock=3))
    team.merge(fork)
    left = team.resolve_all(
        lambda conflict: "seven", check=lambda conflict, answer: isinstance(answer, int)
    )
    assert [each.note for each in left] == ["the answer was refused: 'seven'"]
    assert team.resolve_all(lambda conflict: conflict.ours + conflict.theirs) == []
    assert team.state["stock"] == 10


def test_the_statistics_tell_who_conflicts_where(repo, team):
    for number in range(3):
        fork = fork_of(team, f"try{number}", "critic", owner=f"critic {number}")
        team.transact(lambda state, n=number: state.update(owner=f"planner {n}"))
        team.merge(fork)
        if number:
            repo.team("research", member="ann").resolve(team.inbox[0], take="ours")
    (count,) = team.inbox.statistics()
    assert count[:2] == ("owner", ("critic", "planner"))
    assert (count.open, count.settled, count.by) == (1, 2, {"ann": 2})


def test_a_policy_decides_before_the_inbox_does(team):
    team.state.policy("stock", "min")
    team.state.commit()
    fork = fork_of(team, "try", "critic", stock=7)
    team.transact(lambda state: state.update(stock=3))
    assert team.merge(fork) == []
    assert team.state["stock"] == 3


def test_a_merge_of_nothing_new_changes_nothing(team):
    fork = team.state.fork("try")
    before = team.state.head
    assert team.merge(fork) == []
    assert team.state.head == before


class Odd(Exception):
    """An error whose text cannot be stored, or cannot be made."""

    def __str__(self) -> str:
        if not self.args:
            raise RuntimeError
        return "\ud800" * 1000


def conflict_of(team):
    fork = fork_of(team, "try", "critic", owner="critic")
    team.transact(lambda state: state.update(owner="planner"))
    return team.merge(fork)[0]


def test_resolving_all_leaves_alone_what_the_caller_has_staged(team):
    conflict_of(team)
    team.state["stock"] = 7
    with pytest.raises(Uncommitted):
        team.resolve_all(lambda conflict: "answer")
    assert team.state["stock"] == 7
    team.state.commit()
    assert team.resolve_all(lambda conflict: "answer") == []


@pytest.mark.parametrize("error", [Odd(1), Odd(), ValueError(), RecursionError("deep")])
def test_whatever_a_resolver_raises_the_conflict_stays_with_a_note(team, error):
    conflict_of(team)

    def resolver(conflict):
        raise error

    (left,) = team.resolve_all(resolver)
    assert type(error).__name__ in left.note
    assert team.state["owner"] == "planner"


def test_a_resolver_that_names_a_merge_policy_is_told_and_goes_on(team):
    fork = fork_of(team, "try", "critic", owner="critic")
    fork.policy("notes", "ours")
    fork.commit()
    team.transact(lambda state: (state.policy("notes", "theirs"), state.update(owner="planner")))
    assert {each.path for each in team.merge(fork)} == {".policy/notes", "owner"}
    (left,) = team.resolve_all(lambda conflict: "append")
    assert left.path == ".policy/notes"
    assert left.note.startswith("the answer cannot be taken")
    assert team.state["owner"] == "append"


NAN = float("nan")


@pytest.mark.parametrize(
    ("sides", "answer", "is_taken"),
    [
        ((1, 2, 3), 2.5, True),
        ((1, 2, 3), True, False),
        ((1, 2, 3), None, False),
        ((1, 2, 3), NAN, False),
        ((1, NAN, 3), NAN, True),
        ((True, False, None), None, True),
        ((True, False, None), 1, False),
        (("a", "b", "c"), b"d", False),
        (("a", "b", ["c"]), ["d"], True),
        (([1], [2], [3]), (4,), False),
        (({"a": 1}, {"a": 2}, "gone"), {}, True),
        ((date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 3)), date(2027, 1, 1), True),
        ((1, 2, 3), object(), False),
    ],
)
def test_an_answer_is_of_the_type_of_a_value_in_conflict(team, sides, answer, is_taken):
    base, ours, theirs = sides
    team.transact(lambda state: (state.policy("n", "error"), state.update(n=base)))
    fork = fork_of(team, "try", "critic", n=theirs)
    team.transact(lambda state: state.update(n=ours))
    assert [each.path for each in team.merge(fork)][:1] == ["n"]
    left = team.resolve_all(lambda conflict: answer)
    assert (left == []) == is_taken
    assert all(each.note.startswith("the answer cannot be taken: it is a") for each in left)


class Unprintable:
    """An answer that cannot be stored, nor shown."""

    def __repr__(self) -> str:
        raise ZeroDivisionError

    def __reduce__(self) -> str:
        raise ZeroDivisionError


@pytest.mark.parametrize("answer", [..., lambda: 1, {1: lambda: 1}, Unprintable()])
def test_an_answer_that_makes_no_sense_leaves_the_conflict_with_a_note(team, answer):
    conflict_of(team)
    (left,) = team.resolve_all(lambda conflict: answer)
    assert left.note.startswith("the answer cannot be taken")
    (left,) = team.resolve_all(lambda conflict: answer, check=lambda conflict, answer: True)
    assert left.note.startswith("the answer cannot be taken")
    (left,) = team.resolve_all(lambda conflict: answer, check=lambda conflict, answer: 1 / 0)
    assert "ZeroDivisionError" in left.note
    (left,) = team.resolve_all(lambda conflict: answer, check=lambda conflict, answer: False)
    assert left.note
    assert team.state.is_clean
    team.resolve(left, take="theirs")
    assert team.state["owner"] == "critic"


def test_a_resolver_that_is_late_leaves_what_others_have_decided(repo, team):
    conflict_of(team)

    def resolver(conflict):
        other = repo.team("research", member="critic")
        other.resolve(conflict.id, take="theirs")
        return "late"

    assert team.resolve_all(resolver) == []
    team.state.refresh()
    assert team.state["owner"] == "critic"


def test_a_conflict_of_merge_policies_is_decided_for_a_side(team):
    fork = team.state.fork("try")
    fork.policy("notes", "ours")
    fork.commit()
    team.transact(lambda state: state.policy("notes", "theirs"))
    (conflict,) = team.merge(fork)
    assert conflict.path == ".policy/notes"
    with pytest.raises(BadPath):
        team.resolve(conflict, value="append")
    team.resolve(conflict, take="theirs")
    assert team.state.policies()["notes"] == "ours"


def test_an_agent_decides_from_both_values_and_both_histories(repo, team):
    fork = team.state.fork("try")
    fork.commit_as("critic")
    fork["stock"] = 7
    fork.commit("found six")
    team.transact(lambda state: state.update(stock=3), "sold two")
    team.merge(fork)
    asked = []

    def answer(messages, tools):
        asked.append(messages[-1].text)
        return Reply(
            Message(Role.ASSISTANT, (Text(str(len(asked) * 5)),)), TokenUsage(1, 1), "stop"
        )

    agent = Agent(answer)

    @agent.task
    def decide(base: int, ours: int, theirs: int, done: dict[str, list[str]]) -> int:  # type: ignore[empty-body]
        """Decide how many are left."""

    def resolver(conflict: InboxConflict):
        done = {
            side: [f"{each.author}: {each.message}" for each in conflict.history(side)]
            for side in ("ours", "theirs")
        }
        return decide(
            conflict.base, conflict.ours, conflict.theirs, done, state=repo.session("judge")
        )

    assert team.resolve_all(resolver) == []
    assert team.state["stock"] == 5
    told = ("1", "3", "7", "planner: sold two", "critic: found six")
    assert all(part in asked[0] for part in told)
