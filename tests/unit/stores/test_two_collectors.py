"""Two collections at once, stopped and continued at the places where each could hurt the other."""

from __future__ import annotations

import pytest

from otolith import open as open_repo
from otolith.care import verify
from otolith.core import links
from otolith.stores.sqlite.gc import HistoryPruner
from otolith.stores.sqlite.write_queue import ShortTransactions

FOR_EVER = 1 << 62


@pytest.fixture
def now():
    return [1_000]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


@pytest.fixture
def repo(path, now):
    with open_repo(path, clock=lambda: now[0]) as repo:
        state = repo.session("s")
        for number in range(4):
            now[0] += 1_000
            state["x"] = number
            state.commit()
        yield repo


def collect(repo, before):
    repo.store.collect(links, forget_moves_before=before)


def interrupted(monkeypatch, act):
    """Do something else right after a collection has read where a branch was."""
    real, waiting = HistoryPruner._old_ends, [act]

    def old_ends(self, names):
        found = real(self, names)
        if waiting:
            waiting.pop()()
        return found

    monkeypatch.setattr(HistoryPruner, "_old_ends", old_ends)


def test_a_move_that_another_collection_has_blanked_stays_blank(repo, path, now, monkeypatch):
    with open_repo(path, clock=lambda: now[0]) as other:
        interrupted(monkeypatch, lambda: collect(other, FOR_EVER))

        collect(repo, now[0])  # keeps the newest move alone

    assert verify(repo, level="deep").problems == []
    collect(repo, FOR_EVER)


def test_a_collection_goes_on_where_another_has_forgotten_before(repo, path, now, monkeypatch):
    with open_repo(path, clock=lambda: now[0]) as other:
        names = HistoryPruner._names

        def forgotten_meanwhile(self):
            found = names(self)
            monkeypatch.setattr(HistoryPruner, "_names", names)
            collect(other, FOR_EVER)
            return found

        monkeypatch.setattr(HistoryPruner, "_names", forgotten_meanwhile)

        collect(repo, now[0])

    assert verify(repo, level="deep").problems == []
    assert repo.session("s")["x"] == 3


def test_a_branch_that_moves_after_its_history_was_read_keeps_the_new_move(
    repo, path, now, monkeypatch
):
    """Others in the same transaction are forgotten all the same."""
    other_session = repo.session("t")
    other_session["y"] = 1
    other_session.commit()
    with open_repo(path, clock=lambda: now[0]) as other:

        def commit_elsewhere():
            state = other.session("s")
            state["x"] = "new"
            state.commit()

        interrupted(monkeypatch, commit_elsewhere)
        collect(repo, FOR_EVER)

    assert repo.store.moves("session/s/main")[0].new == repo.store.ref("session/s/main")
    assert repo.store.moves("session/t/main") == []
    assert verify(repo, level="deep").problems == []


def test_the_histories_of_many_branches_are_forgotten_in_few_transactions(repo, now, monkeypatch):
    for number in range(300):
        state = repo.session(f"s{number}")
        for value in range(3):
            state["x"] = value
            state.commit()
    transactions, transaction = [], ShortTransactions.transaction

    def counted(self):
        transactions.append(1)
        return transaction(self)

    monkeypatch.setattr(ShortTransactions, "transaction", counted)
    seen = []
    report = repo.store.collect(
        links,
        forget_moves_before=FOR_EVER,
        progress=lambda phase, done, total: seen.append((phase, done, total)),
    )

    assert report.dropped_moves == 905  # with those of `s`, and of the constants
    assert len(transactions) < 100
    assert ("forget", 302, 302) in seen
    assert repo.store.moves() == []
    assert verify(repo, level="deep").problems == []


def test_a_long_history_is_forgotten_in_several_transactions(repo, now):
    state = repo.session("long")
    for value in range(400):
        now[0] += 1
        state["x"] = value
        state.commit()
    newest = repo.store.moves("session/long/main")[:50]
    collect(repo, newest[-1].time)

    assert repo.store.moves("session/long/main") == newest
    assert verify(repo, level="deep").problems == []
