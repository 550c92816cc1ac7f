"""News of refs that moved: whoever is subscribed waits, and is told once a ref may have moved.

    RefSubscription    collects the names of refs that moved, until its owner asks for them
    RefNews            the subscriptions of one store, which reports to them

Rules
1. No move that stays is missed: what lands after `subscribe` returned is reported. A name too many
   is allowed, so whoever may have missed something (after a fork, a lost connection) reports all.
2. A wait holds nobody up but its owner: a thread blocks, a greenlet and a task let others continue.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import TIMEOUT_MAX, Condition, Event
from weakref import WeakSet

from otolith import greenlets
from otolith.errors import Closed, Error


class RefSubscription:
    """A wait for refs that move; one thread or task uses it."""

    def __init__(self, news: RefNews, prefix: str) -> None:
        self._news = news
        self._prefix = prefix
        self._names: set[str] = set()
        self._alert: Callable[[], object] | None = None
        self._is_closed = False

    def wait(self, timeout_seconds: float) -> set[str]:
        """Return the names of refs that may have moved since the last call.

        Raises:
            Closed: the subscription or its store was closed, before or meanwhile.
            Unavailable: the store could not be asked until the time-out.
        """
        if greenlets.is_inside():
            return greenlets.wait_for(self.wait_async(timeout_seconds))
        if not self._news.is_listening:
            self._news.start()
        alert = Event()
        if self._begin(alert.set, timeout_seconds):
            try:
                alert.wait(min(timeout_seconds, TIMEOUT_MAX))
            finally:
                self._alert = None
        return self._end()

    async def wait_async(self, timeout_seconds: float) -> set[str]:
        """Do as `wait` does, while other tasks of the event loop continue."""
        import asyncio  # here, for who awaits has it already

        if not self._news.is_listening:
            await asyncio.to_thread(self._news.start)
        alert, loop = asyncio.Event(), asyncio.get_running_loop()
        if self._begin(partial(loop.call_soon_threadsafe, alert.set), timeout_seconds):
            try:
                with suppress(TimeoutError):
                    await asyncio.wait_for(alert.wait(), timeout_seconds)
            finally:
                self._alert = None
        return self._end()

    def close(self) -> None:
        """End the subscription, and a wait for it. Closing twice is harmless."""
        with self._news.changed:
            self._is_closed = True
            self.alert()
        self._news.remove(self)

    @property
    def is_waiting(self) -> bool:
        """Whether its owner waits now."""
        return self._alert is not None

    def add(self, names: set[str]) -> None:
        """Note that refs have moved. The caller holds the lock of the news."""
        if found := {name for name in names if name.startswith(self._prefix)}:
            self._names |= found
            self.alert()

    def alert(self) -> None:
        """End a wait. The caller holds the lock of the news."""
        alert, self._alert = self._alert, None
        if alert is not None:
            with suppress(RuntimeError):  # its event loop has ended
                alert()

    def _begin(self, alert: Callable[[], object], timeout_seconds: float) -> bool:
        """Tell whether to wait: there is nothing to return or to raise yet."""
        news = self._news
        with news.changed:
            is_over = self._names or self._is_closed or news.closed or not news.is_listening
            has_to_wait = not is_over and timeout_seconds > 0
            self._alert = alert if has_to_wait else None
        news.look_soon()
        return has_to_wait

    def _end(self) -> set[str]:
        with self._news.changed:
            if self._is_closed or self._news.closed:
                raise Closed("this subscription was closed", hint="subscribe again")
            names, self._names = self._names, set()
            if not names and self._news.failure is not None:
                raise self._news.failure
            return names


class RefNews:
    """The subscriptions of one store, which reports to them.

    `failure` is why there is no news at present: raised by waits whose time is over.
    """

    def __init__(self) -> None:
        self.changed = Condition()
        self.closed = False
        self.failure: Error | None = None
        self._subscriptions: WeakSet[RefSubscription] = WeakSet()
        _all_news.add(self)

    def subscribe(self, prefix: str = "") -> RefSubscription:
        """Return a subscription, once nothing that lands from now on can be missed."""
        subscription = RefSubscription(self, prefix)
        with self.changed:
            self.check_open()
            self._subscriptions.add(subscription)
        try:
            if not self.is_listening:
                greenlets.call(self.start)
        except BaseException:
            subscription.close()
            raise
        return subscription

    @property
    def is_listening(self) -> bool:
        """Whether nothing is missed."""
        return True

    def report(self, names: set[str]) -> None:
        """Tell all subscriptions which refs may have moved."""
        if names and self._subscriptions:
            with self.changed:
                for subscription in list(self._subscriptions):
                    subscription.add(names)

    def remove(self, subscription: RefSubscription) -> None:
        """Forget a subscription; without any, nobody listens."""
        with self.changed:
            self._subscriptions.discard(subscription)
        self.stop(unless_wanted=True)

    def close(self) -> None:
        """End all subscriptions, and waits for them."""
        with self.changed:
            self.closed = True
            self._alert_all()
        self.stop()

    def check_open(self) -> None:
        """Raise Closed after `close`."""
        if self.closed:
            raise Closed("this store was closed", hint="open it again")

    def start(self) -> None:
        """Notice from now on what moves."""

    def stop(self, *, unless_wanted: bool = False) -> None:
        """Notice nothing any more; with `unless_wanted`, only if nobody is subscribed."""

    def look_soon(self) -> None:
        """Note that somebody asks for news."""

    def forget(self) -> None:
        """Start anew in a forked child."""
        self.changed = Condition()

    def _alert_all(self) -> None:
        for subscription in list(self._subscriptions):
            subscription.alert()
        self.changed.notify_all()


_all_news: WeakSet[RefNews] = WeakSet()


def _after_fork() -> None:
    for news in list(_all_news):
        news.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
