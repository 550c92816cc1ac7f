"""A Redis server as a cache of objects under another store.

Nothing depends on it: a server that is down, slow or full is a cache without anything in it. After
a failure it is left alone for some seconds, so that reading does not wait for it each time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from time import monotonic

from otolith.errors import Closed, Error, Invalid
from otolith.stores.base import digest
from otolith.stores.redis.client import Client, RedisAddress
from otolith.stores.redis.news import RedisHints
from otolith.stores.redis.refs import parts
from otolith.stores.server_url import split_options
from otolith.types import Hash

_TOGETHER = 1000
_CALL_BYTES = 8 << 20
_TIMEOUT_SECONDS = 1
_REST_SECONDS = 5.0


class RedisCache:
    """Objects that the server may drop at any time; an eviction policy such as allkeys-lru is fine.

    `url` is that of a `RedisStore`; its `timeout` is 1 second unless given. `ttl_seconds` is how
    long the server has an object that nobody writes again. `hits`, `misses` and `errors` count
    objects asked for and calls that failed.
    """

    def __init__(self, url: str, *, ttl_seconds: int = 24 * 3600) -> None:
        if ttl_seconds < 1:
            raise Invalid(f"ttl_seconds must be at least 1, got {ttl_seconds}")
        address = RedisAddress.of(url)
        if "timeout" not in split_options(url, {"timeout"})[1]:
            times = dict.fromkeys(("socket_timeout", "socket_connect_timeout"), _TIMEOUT_SECONDS)
            arguments = address.arguments
            arguments |= {name: times[name] for name in times if name in arguments}
        self._client = Client(address)
        self._channel = f"{self._client.base}announced:{address.arguments['db']}"
        self._ttl_seconds = ttl_seconds
        self._rests_until = 0.0
        self.hits = self.misses = self.errors = 0

    def __repr__(self) -> str:
        """Show the URL, without secrets."""
        return f"<{type(self).__name__} {self._client.address.shown}>"

    def check(self) -> None:
        """Ask the server once.

        Raises:
            Denied, Unavailable: it refuses to answer, or does not.
        """
        try:
            self._client.call("MGET", self._client.key(b"cache:"))
        except Error:
            self._rests_until = monotonic() + _REST_SECONDS
            raise

    def get_many(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        """Return the objects that are in the cache; one with other bytes than its hash is not."""
        found: dict[Hash, bytes] = {}
        for some in parts(hashes, _TOGETHER):
            keys = [self._client.key(b"cache:" + name) for name in some]
            replies = self._try([("MGET", *keys)])
            pairs = zip(some, replies[0], strict=True) if replies else ()
            found |= {
                name: data for name, data in pairs if data is not None and digest(data) == name
            }
        self.hits += len(found)
        self.misses += len(hashes) - len(found)
        return found

    def put_many(self, objects: Mapping[Hash, bytes]) -> None:
        """Add objects, if the server takes them."""
        for some in parts(list(objects.items()), _TOGETHER):
            commands = [
                ("SET", self._client.key(b"cache:" + name), bytes(data), "EX", self._ttl_seconds)
                for name, data in some
                if len(data) <= _CALL_BYTES
            ]
            if commands:
                self._try(commands)

    def announce(self, names: Collection[str]) -> None:
        """Tell others who use this cache that refs of the store underneath have moved."""
        self._try([("PUBLISH", self._channel, "\0".join(names))])

    def news_channel(self) -> RedisHints:
        """Return what others announce from now on."""
        return RedisHints(self._client, self._channel)

    def close(self) -> None:
        """Close the connections. Closing twice is harmless."""
        self._client.close()

    def _try(
        self, commands: Sequence[tuple[str | bytes | int, ...]]
    ) -> list[Sequence[bytes | None]]:
        """Return the replies, or nothing if a call failed, now or a moment ago."""
        if monotonic() < self._rests_until:
            return []
        try:
            return self._client.call_all(commands)
        except Closed:
            raise
        except Error:
            self.errors += 1
            self._rests_until = monotonic() + _REST_SECONDS
            return []
