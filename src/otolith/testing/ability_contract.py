"""The promises of abilities that only some stores have, as tests: inventory, leases and news.

They are a part of `StoreContract`, and skip a store that does not claim the ability.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import ClassVar, Protocol, cast

import pytest

from otolith.errors import Closed, Fenced, Invalid, StaleRef
from otolith.stores import (
    Batch,
    Inventory,
    Lease,
    Leaser,
    Notifier,
    Store,
    Subscription,
    Swap,
    news_of,
)
from otolith.testing.store_samples import blob, outcome, put, run_in_threads

_SOON_SECONDS = 60.0  # a store that needs longer to report a move is broken, not busy


class LeasingStore(Store, Leaser, Protocol):
    """A store that grants leases."""


class NotifyingStore(Store, Notifier, Protocol):
    """A store that reports which refs move."""


def _granted(lease: Lease | None) -> Lease:
    assert lease is not None
    return lease


def _wait_until_fenced(leaser: LeasingStore, lease: Lease) -> None:
    """Wait until a lease has run out; asking for it again would renew it."""
    deadline = monotonic() + _SOON_SECONDS
    while outcome(leaser, Batch(fences={lease.name: lease.token})) is not Fenced:
        assert monotonic() < deadline, "a lease does not run out"
        sleep(0.02)


def _when_expired(store: LeasingStore, name: str, holder: str) -> Lease:
    """Acquire a lease as soon as that of somebody else has run out."""
    deadline = monotonic() + _SOON_SECONDS
    while (lease := store.lease(name, holder, ttl_seconds=60)) is None:
        assert monotonic() < deadline, "a lease does not run out"
        sleep(0.02)
    return lease


def _names_until(news: Subscription, wanted: str) -> set[str]:
    """Wait until a name is reported; return all that were."""
    names: set[str] = set()
    deadline = monotonic() + _SOON_SECONDS
    while wanted not in names:
        assert monotonic() < deadline, f"the move of {wanted} was not reported"
        names |= news.wait(1.0)
    return names


class AbilityContract:
    """The promises of a store that tells what it has, grants leases, or reports moves."""

    threads: ClassVar[int] = 4

    def make(self, folder: Path) -> Store:
        """Return an empty store; a durable one stores its files in the folder."""
        raise NotImplementedError

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        """An empty store, closed after the test."""
        store = self.make(tmp_path)
        yield store
        store.close()

    @pytest.fixture
    def leaser(self, store: Store) -> LeasingStore:
        """The same store, if it grants leases; the test is skipped otherwise."""
        if not store.capabilities.leases:
            pytest.skip("this store grants no leases")
        return cast("LeasingStore", store)

    @pytest.fixture
    def notifier(self, store: Store) -> NotifyingStore:
        """The same store, if it reports moves; the test is skipped otherwise."""
        if not store.capabilities.notifies:
            pytest.skip("this store does not report moves")
        return cast("NotifyingStore", store)

    # -------------------- inventory, for stores that can tell what they have

    def test_it_tells_which_objects_it_has(self, store: Store) -> None:
        """`holds` returns the hashes of objects that are there, and of no others."""
        if not isinstance(store, Inventory):
            pytest.skip("this store has no inventory")
        a, empty, absent = blob("a"), blob(b""), blob("absent")
        store.write(Batch(objects=[a, empty]))
        assert store.holds([a.hash, absent.hash, empty.hash, a.hash]) == {a.hash, empty.hash}
        assert store.holds([]) == set()

    # -------------------- leases, for stores that grant them; the others skip these

    def test_a_lease_has_one_holder(self, leaser: LeasingStore) -> None:
        """Somebody else gets None while a lease lasts; another name is another lease."""
        lease = _granted(leaser.lease("job", "ann", ttl_seconds=60))
        assert (lease.name, lease.holder) == ("job", "ann")
        assert leaser.lease("job", "bob", ttl_seconds=60) is None
        assert leaser.lease("other", "bob", ttl_seconds=60) is not None

    def test_a_lease_can_be_looked_at(self, leaser: LeasingStore) -> None:
        """Whoever asks learns who has it, until it was given back or has run out."""
        assert leaser.leased("job") is None
        lease = _granted(leaser.lease("job", "ann", ttl_seconds=60))
        found = _granted(leaser.leased("job"))
        assert found[:3] == lease[:3]
        leaser.release(lease)
        assert leaser.leased("job") is None
        _granted(leaser.lease("job", "bob", ttl_seconds=0.5))
        deadline = monotonic() + _SOON_SECONDS
        while leaser.leased("job") is not None:
            assert monotonic() < deadline, "a lease does not run out"

    def test_a_lease_is_renewed_by_its_holder(self, leaser: LeasingStore) -> None:
        """Renewing extends a lease, and its token stays: what was begun can be completed."""
        lease = _granted(leaser.lease("job", "ann", ttl_seconds=30))
        again = _granted(leaser.lease("job", "ann", ttl_seconds=60))
        assert again.token == lease.token
        assert again.expires > lease.expires

    def test_a_lease_that_was_given_back_is_free(self, leaser: LeasingStore) -> None:
        """After `release` others get it, with a higher token; the old one cannot write."""
        first = _granted(leaser.lease("job", "ann", ttl_seconds=60))
        leaser.release(first)
        with pytest.raises(Fenced):
            leaser.write(Batch(fences={"job": first.token}))
        second = _granted(leaser.lease("job", "bob", ttl_seconds=60))
        assert second.token > first.token
        leaser.release(first)
        assert leaser.lease("job", "carl", ttl_seconds=60) is None

    def test_a_lease_runs_out(self, leaser: LeasingStore) -> None:
        """Another holder gets it then, with a higher token; also the last one gets a new token."""
        first = _granted(leaser.lease("job", "ann", ttl_seconds=0.05))
        second = _when_expired(leaser, "job", "bob")
        assert second.token > first.token
        short = _granted(leaser.lease("own", "ann", ttl_seconds=0.05))
        _wait_until_fenced(leaser, short)
        again = _granted(leaser.lease("own", "ann", ttl_seconds=60))
        assert again.token > short.token

    def test_the_holder_of_a_lease_writes(self, leaser: LeasingStore) -> None:
        """A batch with the token of a lease that lasts lands."""
        a, b = blob("a"), blob("b")
        lease = _granted(leaser.lease("job", "ann", ttl_seconds=60))
        for item in (a, b):
            leaser.write(Batch(objects=[item], fences={"job": lease.token}))
        assert len(leaser.read([a.hash, b.hash])) == 2

    def test_a_batch_of_a_lease_that_ran_out_is_fenced_off(self, leaser: LeasingStore) -> None:
        """Nobody else has the lease, but it might be granted at any moment."""
        a = blob("a")
        lease = _granted(leaser.lease("job", "ann", ttl_seconds=0.05))
        _wait_until_fenced(leaser, lease)
        with pytest.raises(Fenced):
            leaser.write(Batch(objects=[a], fences={"job": lease.token}))
        assert leaser.read([a.hash]) == {}

    def test_a_batch_of_a_lost_lease_is_fenced_off(self, leaser: LeasingStore) -> None:
        """The token of an earlier holder is refused, before the new one has written anything."""
        first = _granted(leaser.lease("job", "ann", ttl_seconds=0.05))
        second = _when_expired(leaser, "job", "bob")
        with pytest.raises(Fenced):
            leaser.write(Batch(fences={"job": first.token}))
        leaser.write(Batch(fences={"job": second.token}))

    def test_the_token_of_a_lease_is_higher_than_any_that_was_seen(
        self, leaser: LeasingStore
    ) -> None:
        """Fences that were written without a lease count too."""
        leaser.write(Batch(fences={"job": 41}))
        assert _granted(leaser.lease("job", "ann", ttl_seconds=60)).token > 41

    def test_one_of_many_gets_a_lease(self, leaser: LeasingStore) -> None:
        """Threads that ask for the same lease together: one gets it."""
        got: list[Lease | None] = []
        numbers = count()
        run_in_threads(
            self.threads,
            lambda: got.append(leaser.lease("job", f"h{next(numbers)}", ttl_seconds=60)),
        )
        assert len([lease for lease in got if lease is not None]) == 1

    @pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
    def test_a_lease_lasts_for_a_while(self, leaser: LeasingStore, seconds: float) -> None:
        """A lease of no time, or without an end, is `Invalid`."""
        with pytest.raises(Invalid):
            leaser.lease("job", "ann", ttl_seconds=seconds)

    # -------------------- news, for stores that report moves; the others skip these

    def test_a_move_is_reported(self, notifier: NotifyingStore) -> None:
        """`wait` returns the name of a ref that was made, moved or removed."""
        a, b = blob("a"), blob("b")
        news = notifier.subscribe()
        put(notifier, "main/ü", a)
        assert _names_until(news, "main/ü") == {"main/ü"}
        put(notifier, "main/ü", b)
        assert _names_until(news, "main/ü") == {"main/ü"}
        notifier.write(Batch(swaps=[Swap("main/ü", b.hash, None)]))
        assert _names_until(news, "main/ü") == {"main/ü"}
        news.close()

    def test_only_moves_under_the_prefix_are_reported(self, notifier: NotifyingStore) -> None:
        """A subscription hears of the refs that it asked for."""
        news = notifier.subscribe("branch/")
        put(notifier, "tag/1", blob("a"))
        put(notifier, "branch/main", blob("b"))
        assert _names_until(news, "branch/main") == {"branch/main"}
        news.close()

    def test_a_long_name_is_reported(self, notifier: NotifyingStore) -> None:
        """Whatever a message can hold: others may be reported with it, but it is."""
        name = "long/" + "é" * 3000
        news = notifier.subscribe("long/")
        put(notifier, name, blob("a"))
        assert name in _names_until(news, name)
        news.close()

    def test_a_move_by_another_thread_ends_the_wait(self, notifier: NotifyingStore) -> None:
        """Every subscription hears of every move, also those made while nobody waits."""
        several = [notifier.subscribe() for _ in range(2)]
        names = [f"ref/{number}" for number in range(5)]

        def move() -> None:
            """Move all refs."""
            for name in names:
                put(notifier, name, blob(name))

        def listen(news: Subscription) -> None:
            """Wait for all of them."""
            missing = set(names)
            deadline = monotonic() + _SOON_SECONDS
            while missing and monotonic() < deadline:
                missing -= news.wait(1.0)
            assert missing == set()

        run_in_threads(3, move, *(lambda news=news: listen(news) for news in several))
        for news in several:
            news.close()

    def test_no_news_is_an_empty_set(self, notifier: NotifyingStore) -> None:
        """`wait` returns when the time is over; a refused batch is not reported."""
        a = blob("a")
        news = notifier.subscribe()
        with pytest.raises(StaleRef):
            notifier.write(Batch(swaps=[Swap("main", a.hash, a.hash)]))
        assert news.wait(0.05) == set()
        news.close()

    def test_each_subscription_hears_what_it_asked_for(self, notifier: NotifyingStore) -> None:
        """Two subscriptions at once, and one that begins later and hears only of what follows."""
        one, other = notifier.subscribe("a/"), notifier.subscribe("b/")
        put(notifier, "a/1", blob("1"))
        put(notifier, "b/1", blob("1"))
        assert _names_until(one, "a/1") == {"a/1"}
        assert _names_until(other, "b/1") == {"b/1"}
        one.close()
        late = notifier.subscribe("a/")
        put(notifier, "a/2", blob("2"))
        assert "a/2" in _names_until(late, "a/2")
        other.close()
        late.close()

    def test_moves_are_collected_while_nobody_waits(self, notifier: NotifyingStore) -> None:
        """Names wait for whoever asks later; a wait without time returns what there is."""
        news = notifier.subscribe()
        assert news.wait(0) == set()
        for name in ("x", "y", "z"):
            put(notifier, name, blob(name))
        names: set[str] = set()
        deadline = monotonic() + _SOON_SECONDS
        while names != {"x", "y", "z"}:
            assert monotonic() < deadline, f"only {sorted(names)} were reported"
            names |= news.wait(0)
            sleep(0.002)
        news.close()

    @pytest.mark.parametrize("closes_store", [False, True])
    def test_closing_ends_a_wait(self, notifier: NotifyingStore, *, closes_store: bool) -> None:
        """A thread that waits gets `Closed` at once, when its subscription or its store closes."""
        news = notifier.subscribe()
        results: list[object] = []

        def wait() -> None:
            """Wait for something that does not happen."""
            try:
                results.append(news.wait(10 * _SOON_SECONDS))
            except Closed:
                results.append(Closed)

        thread = Thread(target=wait)
        thread.start()
        thread.join(0.05)
        (notifier if closes_store else news).close()
        thread.join(_SOON_SECONDS)
        assert not thread.is_alive(), "the wait does not end"
        assert results == [Closed]

    def test_a_task_waits_while_others_continue(self, notifier: NotifyingStore) -> None:
        """`wait_async` returns what `wait` does; the event loop is free meanwhile."""
        news = notifier.subscribe("main")

        async def wait_and_move() -> set[str]:
            """Wait in one task, and move a ref only when another one has been at work."""
            waiting = asyncio.create_task(news.wait_async(_SOON_SECONDS))
            for _ in range(3):
                await asyncio.sleep(0)
            assert not waiting.done()
            await asyncio.to_thread(put, notifier, "main", blob("a"))
            return await waiting

        assert asyncio.run(wait_and_move()) == {"main"}
        assert asyncio.run(news.wait_async(0.05)) == set()
        news.close()
        with pytest.raises(Closed):
            asyncio.run(news.wait_async(0.05))

    def test_a_task_that_waits_can_be_cancelled(self, notifier: NotifyingStore) -> None:
        """The subscription can be used again afterwards, and has missed nothing."""
        news = notifier.subscribe()

        async def give_up() -> None:
            """Wait, and be cancelled."""
            async with asyncio.timeout(0.02):
                await news.wait_async(_SOON_SECONDS)

        with pytest.raises(TimeoutError):
            asyncio.run(give_up())
        put(notifier, "main", blob("a"))
        assert _names_until(news, "main") == {"main"}
        news.close()

    def test_there_is_news_of_any_store(self, store: Store) -> None:
        """`news_of` reports moves also of a store that does not tell: its refs are compared."""
        a, b = blob("a"), blob("b")
        put(store, "branch/gone", a)
        news = news_of(store, "branch/")
        put(store, "other", a)
        put(store, "branch/main", a)
        names = _names_until(news, "branch/main")
        put(store, "branch/main", b)
        names |= _names_until(news, "branch/main")
        store.write(Batch(swaps=[Swap("branch/gone", a.hash, None)]))
        names |= _names_until(news, "branch/gone")
        assert names == {"branch/main", "branch/gone"}
        news.close()
        with pytest.raises(Closed):
            news.wait(0)

    def test_a_closed_subscription_is_closed(self, notifier: NotifyingStore) -> None:
        """Closing twice is harmless; waiting then is `Closed`. Others hear on."""
        news, other = notifier.subscribe(), notifier.subscribe()
        news.close()
        news.close()
        with pytest.raises(Closed):
            news.wait(0.05)
        put(notifier, "main", blob("a"))
        assert _names_until(other, "main") == {"main"}
        other.close()
