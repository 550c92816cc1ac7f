"""What host, fork server and worker say to each other.

The *host* is the process of the user. The *fork server* is started once for a session, inside the
sandbox, with everything imported; it forks a *worker* for each step, or for many. A worker asks the
host for what it reads and hands over what it made; it has no other way to a store.

Whatever a worker sends is decoded into one of the classes below or refused (`wire.py`): it is data
and nothing else. The fork server is trusted no more than a worker: it runs in the same sandbox, and
imports what steps have imported.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from otolith.workspace.wire import Message


class Fork(Message, frozen=True):
    """Host to fork server: fork a worker; its line, and where its output goes, come along."""


class Signal(Message, frozen=True):
    """Host to fork server: send a signal to a worker."""

    pid: int
    number: int


class Learn(Message, frozen=True):
    """Host to fork server: import these, so that workers find them imported."""

    modules: list[str]


class Sweep(Message, frozen=True):
    """Host to fork server: end what steps have started and left behind."""


class Ready(Message, frozen=True):
    """Fork server to host: everything is imported; what is known of Python here."""

    python: str
    sandbox: str


class Forked(Message, frozen=True):
    """Fork server to host: the worker that was asked for, by its id."""

    pid: int


class Ended(Message, frozen=True):
    """Fork server to host: a worker is no more; its exit code, or minus the signal."""

    pid: int
    code: int
    why: str = ""  # where the fork server ended it


class Begin(Message, frozen=True):
    """Host to worker: what a worker is told once."""

    salt: int
    config: bytes
    work: str
    limits: list[int | None]
    resources: dict[str, str] = msgspec.field(default_factory=dict)
    shown_chars: int = 10_000


class Run(Message, frozen=True):
    """Host to worker: run this code on a state, given as the cells at its top."""

    code: str
    step: int
    roots: dict[str, bytes] | None  # None: go on from what you handed over last
    # Variables to set first: as cells, and as the pickle of a dict.
    put: dict[str, bytes] = msgspec.field(default_factory=dict)
    pickled: bytes = b""
    along: list[bytes] = msgspec.field(default_factory=list)  # objects that will be asked for first


class Objects(Message, frozen=True):
    """Host to worker: the first of the objects that were asked for; None where there is none.

    The rest has to be asked for again. More come along that will be asked for next.
    """

    found: list[bytes | None]
    more: list[bytes] = msgspec.field(default_factory=list)


class Mapped(Message, frozen=True):
    """Host to worker: raw bytes in one piece, in the memory that comes along; or why not."""

    size_bytes: int
    refused: str = ""


class Vouched(Message, frozen=True):
    """Host to worker: whether a pickle is one that this repo has signed."""

    is_signed: bool


class Read(Message, frozen=True):
    """Worker to host: give me these objects."""

    hashes: list[bytes]


class Map(Message, frozen=True):
    """Worker to host: give me the raw bytes that this cell links to, in one piece."""

    cell: bytes


class Vouch(Message, frozen=True):
    """Worker to host: is this pickle, given by its place and cell, one that was signed here?"""

    place: str
    cell: bytes
    signature: bytes


class Handed(msgspec.Struct, array_like=True, frozen=True):
    """An object that a worker made, and an older one that it resembles."""

    data: bytes
    base: bytes | None = None


class Figure(msgspec.Struct, frozen=True):
    """A picture that was drawn."""

    number: int
    png: bytes


class Failure(msgspec.Struct, frozen=True):
    """What code raised."""

    type: str
    message: str
    traceback: str
    line: int | None = None


class Ran(Message, frozen=True):
    """Worker to host: the code has run; what it did is being captured."""


class Handing(Message, frozen=True):
    """Worker to host: objects that what I will hand over needs; their bytes are in sealed memory.

    There is no answer to it.
    """

    sizes: list[int]


class Done(Message, frozen=True):
    """Worker to host: the step is over; what it did, and the state after it."""

    ok: bool
    value: str | None
    value_type: str | None
    failure: Failure | None
    was_interrupted: bool
    cells: dict[str, bytes | None]
    objects: list[Handed]
    created: list[str]
    changed: list[str]
    deleted: list[str]
    lost: dict[str, str]
    loaded: list[str]
    pickles: list[str]
    figures: list[Figure]
    modules: list[str]
    seconds: dict[str, float]


ToForkServer: TypeAlias = Fork | Signal | Learn | Sweep
FromForkServer: TypeAlias = Ready | Forked | Ended
ToWorker: TypeAlias = Begin | Run | Objects | Mapped | Vouched
FromWorker: TypeAlias = Read | Map | Vouch | Ran | Handing | Done
