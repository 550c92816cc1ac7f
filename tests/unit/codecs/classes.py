"""Classes of every family, at the top level of a module as users have them."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import InitVar, dataclass, field
from enum import Enum, Flag, IntEnum, IntFlag, StrEnum, auto
from functools import cached_property
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import attrs
import msgspec
import pydantic

T = TypeVar("T")


@dataclass
class Step:
    name: str
    cost: object = 0
    KIND: ClassVar[str] = "step"

    @cached_property
    def shout(self) -> str:
        return self.name.upper()


@dataclass(frozen=True, slots=True)
class Place:
    x: float
    y: float


@dataclass
class Strict:
    """Would not survive its own constructor being run again."""

    amount: int
    seed: InitVar[int]
    made: list[int] = field(init=False)

    def __post_init__(self, seed: int) -> None:
        if self.amount < 0:
            raise ValueError("amount")
        self.made = [seed]


@dataclass
class Box(Generic[T]):
    content: T


@dataclass
class Versioned:
    __otolith_version__ = 3
    size: int


class Outer:
    @dataclass
    class Inner:
        x: int


@dataclass
class Failure(Exception):
    code: int


@attrs.define
class Ticket:
    seat: str
    tags: list[str] = attrs.Factory(list)


@attrs.frozen(cache_hash=True)
class Coin:
    cents: int


@attrs.frozen(cache_hash=True, slots=False)
class Note:
    text: str


class Point(msgspec.Struct, frozen=True):
    x: int
    y: int = 0


class Picky(msgspec.Struct):
    x: int

    def __post_init__(self) -> None:
        self.x += 1


Pair = namedtuple("Pair", "left right")  # noqa: PYI024


class Named(NamedTuple):
    who: str
    age: int = 0


class Person(pydantic.BaseModel):
    name: str
    age: int = pydantic.Field(default=0, ge=0)
    _seen: int = pydantic.PrivateAttr(default=0)


class Loose(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow", frozen=True)
    name: str


class Numbers(pydantic.RootModel[list[int]]):
    pass


class Color(Enum):
    RED = 1
    GREEN = "g"
    ALSO_RED = 1  # noqa: PIE796


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Word(StrEnum):
    YES = "yes"


class Right(Flag):
    READ = auto()
    WRITE = auto()
    RUN = auto()
    ALL = READ | WRITE | RUN


class Bits(IntFlag):
    A = 1
    B = 2


class Odd(Enum):
    NAN = float("nan")
    PAIR = (1, "a")


class Money:
    def __init__(self, cents: int, unit: str) -> None:
        self.cents, self.unit = cents, unit

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.cents, self.unit))


def lower_money(value: Money) -> list[object]:
    return [value.cents, value.unit]


def lift_money(data: Any) -> Money:
    cents, unit = data
    if type(data) is not list or type(cents) is not int or type(unit) is not str:
        raise ValueError("not money")
    return Money(cents, unit)


@dataclass(slots=True)
class _Seen:
    x: int


class Slotted(_Seen):
    """Has a slot that is not a field."""

    __slots__ = ("hidden",)

    def __init__(self, x: int, hidden: int) -> None:
        super().__init__(x)
        self.hidden = hidden


@dataclass
class Client:
    """Leaves its secret out of what is stored."""

    user: str
    token: str | None
    ready: bool = False

    def __getstate__(self) -> dict[str, object]:
        return {"user": self.user, "token": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self.ready = True


@dataclass
class Draft:
    """Stores a part of itself, and has nothing to say about reading it."""

    text: str
    cache: object = None

    def __getstate__(self) -> dict[str, object]:
        return {"text": self.text}


@attrs.define
class Badge:
    user: str
    secret: str

    def __getstate__(self) -> tuple[str, ...]:
        return (self.user,)

    def __setstate__(self, state: tuple[str, ...]) -> None:
        self.user, self.secret = state[0], ""


@dataclass
class Vault:
    """Says itself how it is made again."""

    name: str
    secret: str

    def __reduce__(self) -> tuple[object, ...]:
        return Vault, (self.name, "")


@dataclass
class Words:
    text: str

    def __post_init__(self) -> None:
        self.words = self.text.split()


class Chapter(Words):
    """No dataclass itself."""

    def __init__(self, text: str, number: int) -> None:
        super().__init__(text)
        self.number = number


class Spot(Pair):
    """A named tuple that takes attributes."""
