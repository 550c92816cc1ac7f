"""A value that was handed out, and what it looked like when it was last encoded."""

from __future__ import annotations

from otolith.agent.tracking.imprint import Imprint


class Hold:
    """A value that was handed out."""

    __slots__ = ("imprint", "likeness", "lost", "mark", "rests", "value", "was_asked")

    def __init__(self, value: object, imprint: Imprint | None = None) -> None:
        self.value = value
        self.imprint = imprint  # None until it is encoded for the first time
        self.likeness: Imprint | None = None  # of the value that it took the place of
        self.mark: tuple[Imprint, int] | None = None  # the fingerprint of all that an imprint has
        self.lost: bytes | None = None  # the cell that stands for it, if it cannot be kept
        self.was_asked = True  # it was handed out since the last look
        self.rests = False  # nobody else has it or a part of it, and the last look saw that
