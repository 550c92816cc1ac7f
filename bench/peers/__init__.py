"""What we are measured beside: one file each, loaded only if the peer is installed."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar

from bench.table import Absent

P = ParamSpec("P")
R = TypeVar("R")

DISTRIBUTIONS = ("kvgit", "agex", "stratadb", "langgraph-checkpoint-sqlite", "apsw", "diskcache")


class Talk(Protocol):
    """A list of messages that is kept."""

    place: Path

    def append(self, message: str) -> None:
        """Add a message to a list and commit."""

    def settle(self) -> None:
        """Bring all to where it stays, as closing would, and go on."""

    def close(self) -> None:
        """Let go of the files."""


class Keeper(Talk, Protocol):
    """A state that is kept in versions."""

    def fill(self, items: dict[str, object]) -> None:
        """Set many keys in one commit."""

    def change(self, key: str, value: object) -> None:
        """Set one key and commit."""


class Maker(Protocol):
    """What makes a keeper at a place that does not exist yet."""

    def __call__(self, place: Path) -> Keeper: ...


class ServerKeeper(Protocol):
    """A state on a server that is kept in versions, or in steps."""

    def fill(self, items: dict[str, object]) -> None:
        """Set many keys in one commit."""

    def change(self, key: str, value: object) -> None:
        """Set one key and commit."""

    def close(self) -> None:
        """Let go of the server."""


class Missing(Exception):
    """A peer cannot take part; the message says why."""


def peer(name: str) -> Maker:
    """Return what makes a peer's keeper.

    Raises:
        Missing: it is not installed here.
    """
    room, _, variant = name.partition(":")
    try:
        module = import_module(f"bench.peers.{room}")
    except ImportError as error:
        raise Missing(f"not installed ({error.name or error})") from error
    maker: Maker = module.make(variant) if variant else module.make()
    return maker


def start(name: str, place: Path) -> Keeper | Absent:
    """Return a peer's keeper, or why there is none."""
    try:
        return peer(name)(place)
    except Missing as why:
        return Absent(str(why))


def connect(name: str, url: str) -> ServerKeeper | Absent:
    """Return a peer's keeper on a server, or why there is none."""
    try:
        maker: Callable[[str], ServerKeeper] = import_module(f"bench.peers.{name}").make()
    except ImportError as error:
        return Absent(f"not installed ({error.name or error})")
    return attempt(maker, url)


def attempt(measure: Callable[P, R], *arguments: P.args, **options: P.kwargs) -> R | Absent:
    """Measure a peer; if it fails, that is what the table says."""
    try:
        return measure(*arguments, **options)
    except Exception as error:
        return Absent(f"failed: {type(error).__name__}: {error}"[:80])
