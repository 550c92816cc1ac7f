"""Two collections at once, stopped and continued at the places where each could hurt the other."""

from __future__ import annotations

import pytest

from otolith import open as open_repo
from otolith.care import verify
from otolith.core import links
from otolith.stores.sqlite.gc import HistoryPruner

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
    real, waiting = HistoryPruner._old_end, [act]

    def old_end(self, name):
        found = real(self, name)
        if name == "session/s/main" and waiting:
            waiting.pop()()
        return found

    monkeypatch.setattr(HistoryPruner, "_old_end", old_end)


def test_a_move_that_another_collection_has_blanked_stays_blank(repo, path, now, monkeypatch):
    with open_repo(path, clock=lambda: now[0]) as other:
        interrupted(monkeypatch, lambda: collect(other, FOR_EVER))

        collect(repo, now[0])  # keeps the newest move alone

    assert verify(repo, level="deep").problems == []
    collect(repo, FOR_EVER)


def test_a_collection_goes_on_where_another_has_forgotten_before(repo, path, now, monkeypatch):
    with open_repo(path, clock=lambda: now[0]) as other:
        rows = HistoryPruner._rows

        def forgotten_meanwhile(self):
            found = rows(self)
            monkeypatch.setattr(HistoryPruner, "_rows", rows)
            collect(other, FOR_EVER)
            return found

        monkeypatch.setattr(HistoryPruner, "_rows", forgotten_meanwhile)

        collect(repo, now[0])

    assert verify(repo, level="deep").problems == []
    assert repo.session("s")["x"] == 3
