"""The n-th call of opening or closing a store fails, for every n; and of a writer that others wait
for. Then it opens as it was, nothing stays open, and whoever waited has an answer.
"""

from __future__ import annotations

import shutil
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from otolith.core import digest
from otolith.errors import Error
from otolith.stores import Batch, Object, SqliteStore, Swap
from tests.fault.injection import Countdown, FailingDisk, PointsOfCode
from tests.fault.scenarios import (
    World,
    check_sound,
    history_of_three,
    repo_over,
    view,
    write_again,
)
from tests.fault.trials import IMPATIENT_SECONDS, assert_released, at_point, descriptors, evenly
from tests.patience import HANG_SECONDS

ALL = 1 << 30
FAULTS = ["disk", "disk from then on", "memory", "interrupt"]


class Injector:
    """Makes the n-th call of a kind fail; counts them if n is 0."""

    def __init__(self, fault: str, disk: FailingDisk, number: int = 0) -> None:
        self.countdown = Countdown(at=number, persistent=fault.endswith("then on"))
        self.error: type[BaseException] = Error
        self.vfs: str | None = None
        if fault.startswith("disk"):
            self.armed = disk.armed(self.countdown)
            self.vfs = disk.name
        else:
            self.error = {"memory": MemoryError, "interrupt": KeyboardInterrupt}[fault]
            self.armed = PointsOfCode(self.error).armed(self.countdown)


def opened(path: Path, vfs: str | None = None) -> SqliteStore:
    return SqliteStore(path, vfs=vfs, durability="fast", busy_timeout_seconds=IMPATIENT_SECONDS)


def made(folder: Path) -> Path:
    """Make a store with three commits."""
    path = folder / "made.db"
    store = opened(path)
    history_of_three(World(repo_over(store, start=1000)))
    store.close()
    return path


def assert_opens(path: Path, expected: Any) -> None:
    fresh = repo_over(opened(path))
    assert view(fresh) == expected
    write_again(fresh)
    check_sound(fresh)
    fresh.close()


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("is_new", [True, False], ids=["new", "existing"])
def test_whatever_fails_while_a_store_is_opened_it_opens_the_next_time(
    tmp_path, rounds, fault, is_new
):
    template = None if is_new else made(tmp_path)
    expected = {} if template is None else seen_in(template)
    path = tmp_path / "a.db"

    def attempt(number: int) -> Countdown:
        for old in tmp_path.glob("a.db*"):
            old.unlink()
        if template is not None:
            shutil.copy(template, path)
        open_files = descriptors()
        with FailingDisk() as disk:
            injector = Injector(fault, disk, number)
            with suppress(injector.error, Error), injector.armed:
                repo_over(opened(path, injector.vfs)).close()
            assert_released(open_files)
            assert_opens(path, expected)
        return injector.countdown

    at_every(attempt, rounds(8, ALL))


@pytest.mark.parametrize("fault", FAULTS)
def test_whatever_fails_while_a_store_is_closed_nothing_is_lost(tmp_path, rounds, fault):
    template = made(tmp_path)
    path = tmp_path / "a.db"

    def attempt(number: int) -> Countdown:
        for old in tmp_path.glob("a.db*"):
            old.unlink()
        shutil.copy(template, path)
        open_files = descriptors()
        with FailingDisk() as disk:
            injector = Injector(fault, disk, number)
            store = opened(path, injector.vfs)
            state = repo_over(store).session("s")
            state["last"] = 1
            state.commit("last")
            expected = view(repo_over(store))
            with suppress(injector.error, Error), injector.armed:
                store.close()
            store.close()
            del state
            assert_released(open_files)
            assert_opens(path, expected)
        return injector.countdown

    at_every(attempt, rounds(8, ALL))


def seen_in(path: Path) -> Any:
    repo = repo_over(opened(path))
    seen = view(repo)
    repo.close()
    return seen


def at_every(attempt: Any, most: int) -> None:
    counted = attempt(0)
    points = counted.turns() if most < ALL else range(1, counted.count + 1)
    for number in evenly(points, most):
        with at_point(number, counted):
            attempt(number)


def batch(name: str) -> Batch:
    data = f"content of {name}".encode() * 9
    item = Object(digest(data), data)
    return Batch(objects=[item], swaps=[Swap(name, None, item.hash)], time=1)


class Queue(deque[Any]):
    """A queue that tells who has come."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived = threading.Semaphore(0)

    def copy(self) -> Any:
        return deque(self)

    def append(self, ticket: Any) -> None:
        super().append(ticket)
        self.arrived.release()


class Waiting(threading.Thread):
    """A thread that writes, and waits for its turn."""

    def __init__(self, store: SqliteStore, name: str) -> None:
        super().__init__(daemon=True)
        self.store, self.ref = store, name
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.store.write(batch(self.ref))
        except BaseException as error:  # noqa: BLE001 - told to the test
            self.error = error


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_whoever_waits_for_a_writer_that_is_interrupted_gets_its_write_done_once(
    tmp_path, rounds, error
):
    def attempt(number: int) -> Countdown:
        countdown = Countdown(at=number)
        store = SqliteStore(tmp_path / f"{number}.db", durability="fast")
        turns, lock = store._group_commit, store._connections.lock
        turns._waiting = queue = Queue()
        others = [Waiting(store, f"theirs/{each}") for each in range(2)]
        with lock:
            for each in others:
                each.start()
            for _ in others:
                assert queue.arrived.acquire(timeout=HANG_SECONDS)
            # The one who has the turn serves all: what `write` does once it has the lock.
            with suppress(error), PointsOfCode(error).armed(countdown):
                turns._write_all()
        for each in others:
            each.join(HANG_SECONDS)
            assert each.error is None
        assert set(store.refs("theirs/")) == {each.ref for each in others}
        assert all(len(store.moves(each.ref)) == 1 for each in others)
        assert not turns._waiting
        store.close()
        return countdown

    at_every(attempt, rounds(40, ALL))
