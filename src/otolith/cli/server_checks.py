"""Checks of a store on a server, for `doctor URL`: what it can promise, and how fast it answers.

The store is opened as it is, and not made. Its round trip is the time of reading a ref. Its write
is a batch that sends the constants of the repo once more and swaps their ref to what it is: the
server does the work of a small commit, and nothing is stored.
"""

from __future__ import annotations

import shlex
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from statistics import median
from typing import NamedTuple

from otolith.errors import Error, StoreNotFound
from otolith.stores import (
    Batch,
    Capabilities,
    Object,
    ServerReporter,
    Store,
    Swap,
    open_store,
    scheme_of,
    without_secrets,
)

ROUNDS = 15  # how often each time is measured
_CONSTANTS = ".config"  # a ref of every repo
_LOCAL = {"", "sqlite", "memory"}
_SLOW_ANSWER_MS = 50


class Diagnosis(NamedTuple):
    """The result of one check; the fields are those of its JSON object."""

    state: str  # ok, warn or bad
    what: str  # the name of the check
    says: str  # what was found
    hint: str = ""  # what to do about it


class _Promise(NamedTuple):
    """What it means that a store has an ability, and that it does not."""

    present: str
    absent: str
    state_if_absent: str = "ok"


_PROMISES = {
    "durable": _Promise(
        "yes: an acknowledged commit survives a restart of the server",
        "no: acknowledged commits can be lost when the server stops",
        "warn",
    ),
    "shared": _Promise("yes: several processes may use it at once", "no: for one process", "warn"),
    "collects": _Promise(
        "yes: `otolith gc` drops what nothing reaches", "no: what was written stays", "warn"
    ),
    "notifies": _Promise(
        "yes: who waits for a commit is told at once", "no: who waits for a commit has to ask"
    ),
    "leases": _Promise("yes: by the clock of the server", "no: the store grants no leases"),
    "expires": _Promise("yes: sessions can expire by themselves", "no: sessions do not expire"),
}


def is_on_server(url: str) -> bool:
    """Tell whether a store is elsewhere, so that this machine's disk does not matter."""
    return scheme_of(url) not in _LOCAL


def server_checks(url: str) -> Iterator[Diagnosis]:
    """Yield all checks of a store on a server."""
    shown = without_secrets(url)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what can be lost has lines of its own
            store = open_store(url, create=False)
    except StoreNotFound as error:
        yield Diagnosis("warn", "store", error.message, _how_to_make(url))
        return
    except Error as error:
        yield Diagnosis("bad", "store", error.message, error.hint)
        return
    with closing(store):
        try:
            yield Diagnosis("ok", "store", shown)
            yield from _server(store)
            yield from _promises(store.capabilities)
            yield _round_trip(store)
            yield from _write(store)
        except Error as error:
            yield Diagnosis("bad", "server", error.message, error.hint)


def _how_to_make(url: str) -> str:
    """Return the command that makes a store; `init` takes no password."""
    bare = without_secrets(url).replace(":***@", "@")
    if "***" in bare:
        return "otolith.open(url) in Python makes one"
    command = f"`otolith init {shlex.quote(bare)}` makes one"
    if bare == url:
        return command
    return f"{command}; it takes the password from the settings of the client, such as PGPASSWORD"


def median_ms(action: Callable[[int], object]) -> float:
    """Call an action several times, and return the median of the milliseconds it takes."""
    times = []
    for number in range(ROUNDS):
        began = time.perf_counter()
        action(number)
        times.append(time.perf_counter() - began)
    return median(times) * 1000


def _server(store: Store) -> Iterator[Diagnosis]:
    """Name the program, and how it can lose or delay commits as it is set up."""
    if isinstance(store, ServerReporter):
        facts = store.server_facts()
        yield Diagnosis("ok", "server", facts.software)
        for risk in facts.risks:
            yield Diagnosis("warn", "risk", risk.problem, risk.remedy)


def _promises(able: Capabilities) -> Iterator[Diagnosis]:
    for name, promise in _PROMISES.items():
        if getattr(able, name):
            yield Diagnosis("ok", name, promise.present)
        else:
            yield Diagnosis(promise.state_if_absent, name, promise.absent)


def _round_trip(store: Store) -> Diagnosis:
    taken = median_ms(lambda _: store.ref(_CONSTANTS))
    says = f"{taken:.2f} ms (median of {ROUNDS})"
    if taken > _SLOW_ANSWER_MS:
        hint = "each commit and each cold read waits for it; tiers in front of the store help"
        return Diagnosis("warn", "round trip", says, hint)
    return Diagnosis("ok", "round trip", says)


def _write(store: Store) -> Iterator[Diagnosis]:
    """Measure a write that changes nothing; a store without a repo in it has none."""
    name = store.ref(_CONSTANTS)
    if name is None:
        return
    (data,) = store.read([name]).values()
    batch = Batch([Object(name, data)], [Swap(_CONSTANTS, name, name)])
    try:
        taken = median_ms(lambda _: store.write(batch))
    except Error as error:
        yield Diagnosis("warn", "write", error.message, error.hint)
        return
    yield Diagnosis("ok", "write", f"{taken:.2f} ms (median of {ROUNDS}), nothing was changed")
