"""News that a thread brings: one that listens to a server, or looks now and then.

    ListenedNews    the thread listens; a store says how
    PolledNews      the thread looks, and compares with what it saw before
    StoreNews       the same for any store, of which it knows nothing else
    news_of         the news of any store
    NewsThread      a thread that tells it to a function

A thread lives as long as there are subscriptions; one that was not closed counts as long as
somebody refers to it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from random import uniform
from threading import Event, Thread, current_thread
from weakref import WeakValueDictionary

from otolith.errors import Busy, Closed, Error, Unavailable
from otolith.stores.base import HintSource, NewsChannel, Notifier, Store, Subscription
from otolith.stores.news import RefNews
from otolith.stores.sockets import readable
from otolith.types import Hash

CHECK_SECONDS = 15.0  # how often a thread that waits looks whether it is still wanted
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 1.0
_HINTED_PAUSE_SECONDS = 5.0  # where those who write give hints, and only some of them may not
_SLOWER = 1.5  # without news, each pause is so much longer than the last


class Alarm:
    """Ends the waits of a thread."""

    def __init__(self) -> None:
        import socket  # here, for most programs hear no news

        self._inner, self._outer = socket.socketpair()
        self._outer.settimeout(0)  # a nudge that finds no room is one of many

    def ring(self) -> None:
        """End the wait of the thread, and all that follow."""
        self._outer.close()

    def nudge(self) -> None:
        """End the wait of the thread, or else the next one."""
        with suppress(OSError):
            self._outer.send(b"!")

    def wait(self, seconds: float, descriptor: int | None = None) -> bool:
        """Wait for it, or for something to read; return whether it has rung."""
        inner = self._inner.fileno()
        watched = [inner] if descriptor is None else [inner, descriptor]
        return inner in readable(watched, seconds) and self._inner.recv(1 << 12) == b""

    def close(self) -> None:
        """Release it; the thread waits no more."""
        self._inner.close()
        self._outer.close()


class ListenedNews(RefNews):
    """News that a thread hears, as long as there are subscriptions."""

    thread_name = "otolith-news"

    def __init__(self) -> None:
        super().__init__()
        self.has_missed = False
        self._thread: Thread | None = None
        self._alarm: Alarm | None = None
        self._has_begun = False

    @abstractmethod
    def listen(self, alarm: Alarm) -> None:
        """Call `begin` once nothing is missed, then report, until the alarm rings.

        An error ends it, and is raised by `subscribe` or by `wait`.
        """

    @property
    def is_listening(self) -> bool:
        """Whether nothing is missed."""
        return self._thread is not None and self._has_begun

    def start(self) -> None:
        """Start the thread if it does not run, and wait until it has begun."""
        with self.changed:
            self.check_open()
            if self._thread is None:
                self.failure, self._has_begun = None, False
                alarm = self._alarm = Alarm()
                self._thread = Thread(
                    target=self._run, args=(alarm,), name=self.thread_name, daemon=True
                )
                self._thread.start()
            thread = self._thread
            self.changed.wait_for(
                lambda: self._has_begun or self._thread is not thread or self.closed
            )
            if not self._has_begun and self.failure is not None:
                raise self.failure

    def begin(self) -> None:
        """Let `start` return: nothing is missed from now on."""
        with self.changed:
            self.failure, self._has_begun, self.has_missed = None, True, False
            self.changed.notify_all()

    def stop(self, *, unless_wanted: bool = False) -> None:
        """End the thread; with `unless_wanted`, only if nobody is subscribed."""
        with self.changed:
            if unless_wanted and self._subscriptions:
                return
            thread, alarm = self._thread, self._alarm
            self._thread = self._alarm = None
            self.changed.notify_all()
        if alarm is not None:
            alarm.ring()
            self.interrupt()
        if thread is not None and thread is not current_thread():
            thread.join()

    def interrupt(self) -> None:
        """End a wait of the thread that the alarm does not end."""

    def is_unwanted(self) -> bool:
        """Tell the thread whether to end, for nobody is subscribed any more."""
        with self.changed:
            if not self._subscriptions:
                self._thread = self._alarm = None  # who subscribes now starts another
            return not self._subscriptions

    def forget(self) -> None:
        """Start anew in a forked child: the thread is its parent's."""
        super().forget()
        if self._alarm is not None:
            self._alarm.close()
        self._thread = self._alarm = None
        self.has_missed = True

    def _run(self, alarm: Alarm) -> None:
        failure: Error | None = None
        try:
            self.listen(alarm)
        except Error as error:
            failure = error
        finally:
            alarm.close()
            with self.changed:
                if self._alarm is alarm:  # nobody has stopped it
                    self._thread = self._alarm = None
                    self.failure, self.has_missed = failure, True
                    self._alert_all()


class PolledNews(ListenedNews):
    """News that a thread looks for, again and again."""

    @abstractmethod
    def look(self) -> set[str]:
        """Return the names of refs that may have moved since the last look, if there was one."""

    @abstractmethod
    def known(self) -> set[str]:
        """Return the names of all refs that there are, or were."""

    @abstractmethod
    def rest(self, alarm: Alarm, *, has_news: bool) -> bool:
        """Wait until it is time to look again; return whether the alarm has rung."""

    def listen(self, alarm: Alarm) -> None:
        """Look, until the alarm rings."""
        names = self.known() if self.has_missed else set[str]()
        names |= self.look() | (self.known() if self.has_missed else set())
        self.begin()
        self.report(names)
        while not self.rest(alarm, has_news=bool(names)) and not self.is_unwanted():
            names = self._look_again()
            self.report(names)

    def _look_again(self) -> set[str]:
        """Look; a failure that may pass is told to those whose time is over."""
        try:
            names = self.look()
        except (Unavailable, Busy) as error:
            self.failure = error
            return set()
        self.failure = None
        return names


class StoreNews(PolledNews):
    """News of a store that does not tell which refs move: its refs are compared by their hashes.

    The longer nothing moves, the longer are the pauses, and nobody looks while nobody waits. Hints
    of those who write (`HintSource`) end a pause.
    """

    def __init__(self, store: Store, prefix: str) -> None:
        super().__init__()
        self._store = store
        self._prefix = prefix
        self._seen: dict[str, Hash] | None = None
        self._pause = _FIRST_PAUSE_SECONDS
        self._is_asked = self._is_parked = False
        self._hints: NewsChannel | None = None

    def listen(self, alarm: Alarm) -> None:
        """Look, until the alarm rings; sooner where there are hints."""
        hints = self._store.news_channel() if isinstance(self._store, HintSource) else None
        if hints is not None:
            hints.descriptor()  # from now on no hint is missed
        self._hints = hints
        try:
            super().listen(alarm)
        finally:
            if hints is not None:
                hints.close()

    def look(self) -> set[str]:
        """Return the names of refs whose hash is another than before."""
        before, self._seen = self._seen, self._store.refs(self._prefix)
        if before is None:
            return set()
        return {name for name, _ in before.items() ^ self._seen.items()}

    def known(self) -> set[str]:
        """Return the names of the refs as they were last seen."""
        return set(self._seen or ())

    def rest(self, alarm: Alarm, *, has_news: bool) -> bool:
        """Pause, and then wait until somebody asks for news."""
        hints = self._hints
        heard = hints.descriptor() if hints is not None else None
        longest = _LONGEST_PAUSE_SECONDS if heard is None else _HINTED_PAUSE_SECONDS
        slower = min(self._pause * _SLOWER, longest)
        self._pause = _FIRST_PAUSE_SECONDS if has_news else slower
        has_rung = alarm.wait(self._pause * uniform(0.5, 1), heard)
        if hints is not None:
            hints.drain()
        while not has_rung and self._subscriptions and not self._is_awaited():
            has_rung = alarm.wait(CHECK_SECONDS)
        return has_rung

    def look_soon(self) -> None:
        """Note that somebody asks for news."""
        with self.changed:
            self._is_asked = True
            if self._is_parked and self._alarm is not None:
                self._alarm.nudge()

    def _is_awaited(self) -> bool:
        """Tell whether anybody has asked since the last look, or still waits."""
        with self.changed:
            is_asked, self._is_asked = self._is_asked, False
            self._is_parked = not is_asked and not any(
                subscription.is_waiting for subscription in self._subscriptions
            )
            return not self._is_parked


def news_of(store: Store, prefix: str = "") -> Subscription:
    """Subscribe to all refs of any store whose name starts with `prefix`.

    A store that tells which refs move is listened to (`capabilities.notifies`). Any other is looked
    at by a thread: twenty times a second after news, later once a second. A ref that moves and
    moves back between two looks is not reported.

        news = news_of(repo.store, "session/trip/")
        while not news.wait(60):
            print("nothing yet")

    Raises:
        Closed, Unavailable: the store cannot be asked.
    """
    if store.capabilities.notifies and isinstance(store, Notifier):
        return store.subscribe(prefix)
    news = _looked_at.get((id(store), prefix))
    if news is None or news.closed:
        news = _looked_at[id(store), prefix] = StoreNews(store, prefix)
    return news.subscribe(prefix)


class NewsThread:
    """Calls a function with the names of refs that may have moved, until it is closed.

    While the store cannot be asked, nothing is told; what moved meanwhile is told later.
    """

    def __init__(self, store: Store, prefix: str, tell: Callable[[set[str]], object]) -> None:
        self._news = news_of(store, prefix)
        self._tell = tell
        self._is_closed = Event()
        Thread(target=self._run, name="otolith-told-news", daemon=True).start()

    def _run(self) -> None:
        while not self._is_closed.is_set():
            try:
                if names := self._news.wait(CHECK_SECONDS):
                    self._tell(names)
            except Closed:
                return
            except Error:
                self._is_closed.wait(_LONGEST_PAUSE_SECONDS)

    def close(self) -> None:
        """Tell nothing more."""
        self._is_closed.set()
        self._news.close()


# An id is that of its store as long as there is news of it, which refers to the store.
_looked_at: WeakValueDictionary[tuple[int, str], StoreNews] = WeakValueDictionary()
