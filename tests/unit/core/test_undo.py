"""What was done and what was undone, read from the moves of a ref."""

from __future__ import annotations

import pytest

from otolith.core.history.refs import Undo
from otolith.errors import NotFound
from otolith.stores import Move
from otolith.types import Hash


class Ref:
    """A ref that moves as it is told; commits are letters."""

    def __init__(self):
        self.moves: list[Move] = []

    @property
    def at(self):
        return self.moves[0].new if self.moves else None

    def go(self, letter, note="step: "):
        self.moves.insert(0, Move("r", self.at, letter and Hash(letter.encode()), 0, note))
        return self

    def undo(self):
        goal, note = Undo(self.moves).back()
        return self.go("-" if goal is None else goal.decode(), note)

    def redo(self):
        goal, note = Undo(self.moves).forward()
        return self.go(goal.decode(), note)


@pytest.fixture
def ref():
    return Ref().go("a").go("b").go("c").go("d")


def test_undo_twice_goes_two_back(ref):
    assert ref.undo().undo().at == b"b"


def test_redo_takes_undo_back(ref):
    assert ref.undo().undo().redo().at == b"c"
    assert ref.redo().at == b"d"


def test_undo_after_redo_goes_back_again(ref):
    assert ref.undo().redo().undo().undo().at == b"b"


def test_a_new_commit_forgets_what_was_undone(ref):
    ref.undo().undo().go("e")
    with pytest.raises(NotFound, match="nothing to redo"):
        ref.redo()


def test_undo_after_a_new_commit_goes_to_where_it_was_made(ref):
    ref.undo().undo().go("e")
    assert ref.undo().at == b"b"
    assert ref.undo().at == b"a"


def test_undo_stops_before_the_first_commit(ref):
    ref.undo().undo().undo()
    assert ref.undo().at == b"-"
    with pytest.raises(NotFound, match="nothing to undo"):
        ref.undo()
    assert ref.redo().redo().at == b"b"


def test_undo_stops_where_a_fork_began():
    ref = Ref().go("a", "fork: from main").go("b")
    assert ref.undo().at == b"a"
    with pytest.raises(NotFound, match="nothing to undo"):
        ref.undo()


def test_a_first_commit_is_not_undone_by_the_second():
    assert Ref().go("a").go("b", "undo: a message").undo().at == b"a"


def test_without_moves_there_is_nothing_to_undo_or_redo():
    for act in (Undo([]).back, Undo([]).forward):
        with pytest.raises(NotFound):
            act()


def test_moves_that_were_forgotten_cannot_be_undone(ref):
    ref.moves = ref.moves[:1]
    assert ref.undo().at == b"c"
    ref.moves = ref.moves[:1]
    assert ref.undo().at == b"d", "an undo whose own past is forgotten is a move like any other"


def test_a_commit_that_calls_itself_an_undo_is_none(ref):
    ref.go("e", "undo: step")
    assert ref.undo().at == b"d"
    assert ref.undo().at == b"c"
