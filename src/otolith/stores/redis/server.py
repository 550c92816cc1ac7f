"""What a Redis server says about itself: whether it writes to disk, and what it evicts."""

from __future__ import annotations

from typing import NamedTuple

from otolith.errors import Denied, Unavailable, Unsupported
from otolith.stores.redis.client import Client


class ServerSettings(NamedTuple):
    """The settings that decide what a store can promise; empty where the server does not tell."""

    has_append_only_file: bool
    sync: str
    """When that file is synced: "always", "everysec" or "no"."""
    eviction: str
    """What the server drops when its memory is full: "noeviction", "allkeys-lru" ..."""

    @classmethod
    def of(cls, client: Client) -> ServerSettings:
        """Ask a server. One that runs for others often forbids CONFIG, and allows INFO."""
        config = _answer(client, "CONFIG", "GET", "appendfsync")
        sync = config[1].decode() if isinstance(config, list) and len(config) > 1 else ""
        info: dict[str, str] = {}
        for section in ("persistence", "memory"):
            text = _answer(client, "INFO", section)
            lines = text.decode(errors="replace").splitlines() if isinstance(text, bytes) else []
            info |= dict(line.split(":", 1) for line in lines if ":" in line)
        return cls(info.get("aof_enabled") == "1", sync, info.get("maxmemory_policy", ""))

    def is_durable(self, durability: str) -> bool:
        """Tell whether an acknowledged write survives the server.

        With "fast" it is enough that a crash of the process, but not a power cut, is survived.
        """
        enough = {"always"} if durability == "full" else {"always", "everysec"}
        return self.has_append_only_file and self.sync in enough

    def check_eviction(self, place: str) -> None:
        """Raise Unsupported if the server may drop any key when its memory is full."""
        if self.eviction.startswith("allkeys"):
            raise Unsupported(
                f"{place}: with maxmemory-policy {self.eviction} the server drops parts of states"
                " when its memory is full",
                hint="set maxmemory-policy noeviction, or use this server only as a cache",
            )


def _answer(client: Client, *words: str) -> object:
    """Return the reply to a question that the server may forbid."""
    try:
        return client.call(*words)
    except (Denied, Unavailable):
        return None
