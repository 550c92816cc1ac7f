"""Instances by what they have, or by what pickle would be told, or only by type."""

from __future__ import annotations

import io
import random
import re
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from tests.traces.telling.atoms import loaded
from tests.traces.telling.teller import UNTOLD, Teller, Telling, name_of

_BY_TYPE = (
    types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType, types.FrameType,
    types.TracebackType, types.CodeType, re.Match, weakref.ref, weakref.WeakSet,
    weakref.WeakKeyDictionary, weakref.WeakValueDictionary, io.IOBase,
)  # fmt: skip
_NOTHING = object()


def _by_type(_: Teller, value: object) -> str:
    return f"<{name_of(type(value))}>"


def _failure(teller: Teller, value: Any) -> str:
    cause = f" from {teller.tell(value.__cause__)}" if value.__cause__ else ""
    inside = f"{teller.tell(value.args)} {{{teller.named(attributes_of(value))}}}"
    return f"<{teller.kind(value)} {inside}{cause}>"


def _random(teller: Teller, value: random.Random) -> str:
    if value is random._inst:
        return "<the global Random>"
    return f"<{teller.kind(value)} {teller.tell(value.getstate())}>"


def library(teller: Teller, value: Any) -> str | None:
    """Tell the objects of libraries that would say too much or the wrong thing by themselves."""
    if any(base.__module__.startswith("matplotlib.") for base in type(value).__mro__):
        return _drawn(value)
    np = loaded("numpy")
    if np is None or not hasattr(np, "random"):
        return None
    if value is np.random.mtrand._rand:
        return "<the global RandomState>"
    if isinstance(value, np.random.RandomState):
        return f"<RandomState {teller.tell(value.get_state(legacy=False))}>"
    if isinstance(value, np.random.Generator):
        return f"<Generator {teller.tell(value.bit_generator)}>"
    if isinstance(value, np.random.BitGenerator):
        seeds = getattr(value.seed_seq, "state", None)
        return f"<{type(value).__qualname__} {teller.tell(value.state)} {teller.tell(seeds)}>"
    return None


def _drawn(value: Any) -> str:
    """Return a short mark of a figure, axes, or anything drawn."""
    kind = type(value).__qualname__
    if hasattr(value, "get_size_inches"):
        width, height = value.get_size_inches()
        return f"<{kind} {float(width):g}x{float(height):g} {len(value.axes)} axes>"
    if hasattr(value, "get_title") and hasattr(value, "get_xlabel"):
        says = (value.get_title(), value.get_xlabel(), value.get_ylabel())
        parts = f"{len(value.lines)} {len(value.patches)} {len(value.collections)}"
        return f"<{kind} {says} {parts}>"
    return f"<{kind}>"


def instance(teller: Teller, value: Any) -> str:
    cls = type(value)
    is_consumed = cls.__module__ in {"itertools", "_thread"} or isinstance(value, Iterator)
    if is_consumed and not teller.is_ours(cls):
        return _by_type(teller, value)
    if _overrides(cls, "__getstate__"):
        state = _or_none(value.__getstate__)
        if state is not None:
            told = teller.named(_told(state)) if isinstance(state, dict) else teller.tell(state)
            return f"{teller.kind(value)}{{{told}}}"
    attributes = attributes_of(value)
    if attributes or teller.is_ours(cls):
        return f"{teller.kind(value)}{{{teller.named(attributes)}}}"
    return _reduced(teller, value)


def _reduced(teller: Teller, value: Any) -> str:
    """Tell an instance that keeps its parts in C by what pickle would be told."""
    reduced = _or_none(lambda: value.__reduce_ex__(4))
    if reduced is None:
        return _by_type(teller, value)
    if isinstance(reduced, str):
        return f"<{name_of(type(value))} {reduced}>"
    _, arguments, *rest = reduced
    told = [teller.tell(list(part) if isinstance(part, Iterator) else part) for part in rest]
    inside = " ".join([teller.tell(arguments), *told])
    return f"<{name_of(type(value))} {inside}>"


def _overrides(cls: type, name: str) -> bool:
    return getattr(cls, name, None) is not getattr(object, name, None)


def _or_none(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception:  # noqa: BLE001 - code of any library, and there is always another way to tell
        return None


def attributes_of(value: object) -> dict[str, object]:
    """Return what an instance has in its `__dict__` and its slots, without asking its class."""
    try:
        own = dict(object.__getattribute__(value, "__dict__"))
    except AttributeError:
        own = {}
    for name, slot in _slots(type(value)):
        found = _slot(slot, value)
        if found is not _NOTHING:
            own[name] = found
    return _told(own)


def _told(state: dict[str, object]) -> dict[str, object]:
    return {name: part for name, part in state.items() if name not in UNTOLD}


def _slots(cls: type) -> Iterator[tuple[str, Any]]:
    for base in cls.__mro__:
        if "__slots__" in vars(base):
            yield from vars(base).items()


def _slot(slot: Any, value: object) -> object:
    if not isinstance(slot, types.MemberDescriptorType):
        return _NOTHING
    try:
        return slot.__get__(value)
    except AttributeError:
        return _NOTHING


KINDS: tuple[tuple[Any, Telling], ...] = (
    (_BY_TYPE, _by_type),
    (BaseException, _failure),
    (random.Random, _random),
)
