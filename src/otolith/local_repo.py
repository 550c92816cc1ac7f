"""A repo with what this process finds around it: the clock, the user, chance, and a signing key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypedDict

from blake3 import blake3

from otolith import core, environment, memory
from otolith.codecs import Codecs, derive
from otolith.errors import Invalid
from otolith.state.frames import merge_frames
from otolith.stores import Store
from otolith.types import Clock, Tag

_DOMAIN = b"otolith workspace 1"


class Parts(TypedDict, total=False):
    """The parts of a repo that have defaults."""

    author: str | None
    codecs: Codecs | None
    clock: Clock | None
    pickle: Literal["never", "signed"] | None
    secret: Callable[[], bytes]
    cache_bytes: int
    load_limit_bytes: int | None


class LocalRepo(core.Repo):
    """A repo whose parts have defaults. Each is an argument, and only asked for if not given."""

    def __init__(
        self,
        store: Store,
        *,
        author: str | None = None,
        codecs: Codecs | None = None,
        clock: Clock | None = None,
        pickle: Literal["never", "signed"] | None = None,
        secret: Callable[[], bytes] = environment.secret,
        cache_bytes: int = 64 << 20,
        load_limit_bytes: int | None = None,
    ) -> None:
        if codecs is not None and pickle is not None:
            raise Invalid("codecs= and pickle= are both given", hint="give pickle= to Codecs")
        super().__init__(
            store,
            codec=Codecs(pickle=pickle or "signed", key=self._key) if codecs is None else codecs,
            clock=environment.wall_clock if clock is None else clock,
            author=environment.user_name() if author is None else author,
            entropy=environment.entropy,
            cache_bytes=cache_bytes,
            load_limit_bytes=load_limit_bytes or environment.memory_bytes(),
        )
        self._secret = secret
        for tag in (Tag.FRAME, Tag.POLARS):
            self.archive.resolvers[f"tag {int(tag)}"] = merge_frames
        self.archive.resolvers |= memory.RESOLVERS

    def sign(self, place: str, content: bytes) -> bytes:
        """Return what proves that this repo has put this content into this place."""
        said = place.encode("utf-8", "surrogatepass")
        head = _DOMAIN + len(said).to_bytes(8, "big") + said
        return blake3(head + content, key=self._key()).digest()

    def _key(self) -> bytes:
        """Return what signs the pickles of this repo, and of no other."""
        return derive(self._secret(), self.salt.to_bytes(8, "big"))
