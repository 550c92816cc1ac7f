"""Turns: who won a race for a ref lets the loser go first."""

from __future__ import annotations

from contextlib import closing
from secrets import token_bytes
from threading import Event, Thread
from time import monotonic

import pytest

from otolith.errors import StaleRef
from otolith.greenlets import GreenletPool
from otolith.stores import Batch, PostgresStore, RedisStore, Swap
from otolith.stores.turns import WriterTurns
from otolith.testing import blob, put
from tests.patience import HANG_SECONDS
from tests.servers import postgres, redis

FIRST_SECONDS = 0.004
RACE = [Swap("main", blob("a").hash, blob("b").hash)]


@pytest.fixture(params=["postgres", "redis"])
def pair(request):
    """Two stores at one place, as two processes have them."""
    url = request.getfixturevalue(f"{request.param}_url")
    is_postgres = request.param == "postgres"
    place = postgres.fresh(url) if is_postgres else redis.fresh(url)
    kind = PostgresStore if is_postgres else RedisStore
    with closing(kind(place)) as one, closing(kind(place)) as other:
        yield one, other


def lose(store) -> None:
    with pytest.raises(StaleRef):
        store.write(Batch(swaps=[Swap("main", blob("long ago").hash, blob("1").hash)]))


def win_against(loser, winner) -> None:
    """Win until the winner hears of the loser, which a server forgets after a tenth of a second."""
    deadline = monotonic() + HANG_SECONDS
    while not winner._turns._pauses():
        assert monotonic() < deadline
        lose(loser)
        put(winner, "main", blob(token_bytes(8)))


def test_a_writer_alone_never_waits(pair):
    alone, _ = pair
    for number in range(3):
        put(alone, "main", blob(str(number)))

    assert not alone._turns._pauses()


def test_a_winner_waits_for_the_writer_that_lost_to_it(pair):
    winner, loser = pair
    put(winner, "main", blob("1"))
    win_against(loser, winner)
    pause = winner._turns._pauses()["main"]

    put(winner, "main", blob("2"))

    assert monotonic() >= pause.until
    assert pause.loser == loser._turns.writer


def test_the_loser_does_not_wait_for_itself(pair):
    winner, loser = pair
    put(winner, "main", blob("1"))
    lose(loser)
    put(loser, "main", blob("2"))
    assert not loser._turns._pauses()

    put(winner, "main", blob("3"))
    assert not winner._turns._pauses()  # nobody waits any more


def test_a_race_for_another_ref_does_not_count(pair):
    winner, loser = pair
    put(winner, "other", blob("1"))
    put(winner, "main", blob("1"))
    lose(loser)
    put(winner, "other", blob("2"))

    assert not winner._turns._pauses()


def test_a_writer_that_loses_again_is_waited_for_longer():
    turns = WriterTurns()
    turns.landed(RACE, loser=b"somebody")
    once = turns._pauses()["main"].seconds
    turns.landed(RACE, loser=b"somebody")
    twice = turns._pauses()["main"].seconds
    for _ in range(9):
        turns.landed(RACE, loser=b"somebody")

    assert (once, twice) == (FIRST_SECONDS, 2 * FIRST_SECONDS)
    assert turns._pauses()["main"].seconds == 16 * FIRST_SECONDS  # and no longer than that


def test_each_thread_is_a_writer():
    turns, seen = WriterTurns(), []
    thread = Thread(target=lambda: seen.append(turns.writer))
    thread.start()
    thread.join()

    assert seen != [turns.writer]
    assert turns.writer == turns.writer != WriterTurns().writer


def test_a_greenlet_that_waits_lets_the_others_continue():
    pool, turns, order = GreenletPool(), WriterTurns(), []
    is_ready = Event()

    def winner() -> None:
        is_ready.wait(HANG_SECONDS)  # until both are submitted
        turns.landed(RACE, loser=b"somebody")
        turns.wait(RACE)
        order.append("winner")

    jobs = [pool.submit(winner), pool.submit(order.append, "other")]
    is_ready.set()
    for job in jobs:
        job.result(HANG_SECONDS)
    pool.shutdown()

    assert order == ["other", "winner"]


def test_a_batch_without_swaps_does_not_wait(pair):
    winner, _ = pair
    winner._turns.landed(RACE, loser=b"somebody")
    before = dict(winner._turns._pauses())

    winner.write(Batch(objects=[blob("x")]))

    assert winner._turns._pauses() == before
