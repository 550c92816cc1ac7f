"""What a format said beyond what was understood of it, so that writing gives back what was read.

A document is read into messages, and the messages are written again. Where that is not what was
read, the difference is kept with the message. It is plain data: `{"=": value}` puts a value in
place, `{"~": {key: difference}, "-": [keys]}` changes a dict, `{"#": {index: difference}}` a list.

`{"^": shape}` puts a value in place as well, but what the message says anyway is not said again. In
a shape `{"@": [path, start, stop]}` is what was written at a path, or a piece of the text there;
`{"+": [shape]}` is a text in pieces, `{"{": {key: shape}}` a dict; all else is as it was. So a text
that came as a list of one part is kept once, and the difference is that it came so. What stands in
two places is said twice, and kept twice: only what is no longer where it was is referred to.

`"of"` marks what was written. Of a message that was changed since, something else is written, and
what is left of the old one does not belong to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from otolith.conversation.formats.parts import compact_json
from otolith.core import digest
from otolith.frozen import thaw

_LEAST, _WORTH = 3, 24
"""From how many letters on a value, and a piece of a text, is looked for in what was written."""
_ALL = 1 << 62
_TRIES = 64
"""In how many places of a text nothing may be found before it is taken for new."""


def meta_key(format: str) -> str:
    """Return under which name a message keeps what a format said; no name of a user's begins so."""
    return f"{_MARK}{format}"


def is_meta_key(name: str) -> bool:
    """Tell whether what is under a name was kept for a format."""
    return name.startswith(_MARK)


def checksum(made: Any) -> str:
    """Return a mark of what was written, by which it is known again."""
    return digest(compact_json(made).encode("utf-8", "surrogatepass"))[:_MARK_BYTES].hex()


_MARK = ".as "
OF = "of"
_MARK_BYTES = 4


# What is left


def unknown_fields(made: Any, given: Any) -> dict[str, Any] | None:
    """Return what turns what was written into what was read, without what both say."""
    left = difference(made, given)
    return None if left is None else _shaped(left, _Written(made, list(_free(left, ()))))


def difference(made: Any, given: Any) -> dict[str, Any] | None:
    """Return what turns one JSON value into another; None if they are the same."""
    if isinstance(made, dict) and isinstance(given, dict):
        return _of_dicts(made, given)
    if isinstance(made, list) and isinstance(given, list) and len(made) == len(given):
        pairs = enumerate(zip(made, given, strict=True))
        parts = {str(at): difference(one, other) for at, (one, other) in pairs}
        changed = {at: part for at, part in parts.items() if part is not None}
        return {"#": changed} if changed else None
    same = type(made) is type(given) and made == given and repr(made) == repr(given)
    return None if same else {"=": given}


def _of_dicts(made: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any] | None:
    parts = {
        key: difference(made[key], value) if key in made else {"=": value}
        for key, value in given.items()
    }
    changed = {key: part for key, part in parts.items() if part is not None}
    gone = sorted(key for key in made if key not in given)
    found = ({"~": changed} if changed else {}) | ({"-": gone} if gone else {})
    return found or None


def _shaped(left: Mapping[str, Any], written: _Written) -> dict[str, Any]:
    """Return a difference whose values do not say again what was written."""
    if "=" in left:
        shape = written.shape(left["="])
        return {"^": shape} if written.is_found else {"=": left["="]}
    inner = {
        kind: {key: _shaped(part, written) for key, part in left[kind].items()}
        for kind in ("~", "#")
        if kind in left
    }
    return {**left, **inner}


def _free(left: Mapping[str, Any], path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield the places of what was written that a difference replaces, or takes away."""
    if "=" in left:
        yield path
    for key in left.get("-", ()):
        yield (*path, key)
    for key, part in left.get("~", {}).items():
        yield from _free(part, (*path, key))
    for key, part in left.get("#", {}).items():
        yield from _free(part, (*path, int(key)))


class _Written:
    """What was written and is no longer where it was, to be found again, once."""

    def __init__(self, made: Any, free: list[tuple[Any, ...]]) -> None:
        self._made = made
        self._free = free
        self._used: dict[str, list[tuple[int, int]]] = {}
        """Which stretches of what is at a path are referred to already."""
        self.is_found = False
        """Whether anything of the last value was."""

    @cached_property
    def _whole(self) -> dict[str, list[Any]]:
        places = [(compact_json(value), path) for path, value in self._moved()]
        return {told: path for told, path in reversed(places) if len(told) >= _LEAST}

    @cached_property
    def _texts(self) -> list[tuple[str, list[Any]]]:
        places = [(value, path) for path, value in self._moved()]
        return [(text, path) for text, path in places if isinstance(text, str)]

    def _moved(self) -> Iterator[tuple[list[Any], Any]]:
        for path, value in _places(self._made, []):
            if any(tuple(path[: len(each)]) == each for each in self._free):
                yield path, value

    def _take(self, path: list[Any], start: int, stop: int) -> bool:
        """Take a stretch of what is at a path, if nobody has taken any of it, or what it is in."""
        place = compact_json(path)[:-1]
        for other, used in self._used.items():
            is_near = other.startswith(place) or place.startswith(other)
            if is_near and (other != place or any(a < stop and start < b for a, b in used)):
                return False
        self._used.setdefault(place, []).append((start, stop))
        return True

    def shape(self, value: Any) -> Any:
        """Return a value as what is new in it."""
        self.is_found = False
        return self._shape(value)

    def _shape(self, value: Any) -> Any:
        if not isinstance(value, str | dict | list):
            return value
        path = self._whole.get(compact_json(value))
        if path is not None and self._take(path, 0, _ALL):
            return self._at(path)
        if isinstance(value, list):
            return list(map(self._shape, value))
        if isinstance(value, dict):
            inner = {
                key: item if key in _FORM and isinstance(item, str) else self._shape(item)
                for key, item in value.items()
            }
            return {"{": inner}
        pieces = list(self._pieces(value))
        return {"+": pieces} if len(pieces) > 1 else pieces[0] if pieces else value

    def _at(self, *place: Any) -> dict[str, Any]:
        self.is_found = True
        return {"@": list(place)}

    def _pieces(self, text: str) -> Iterator[Any]:
        """Yield a text as pieces: of what was written, and what is new."""
        told, at, tries = 0, 0, _TRIES
        while at + _WORTH <= len(text) and tries:
            found = self._again(text, told, at)
            if found is None:
                at, tries = at + _WORTH, tries - 1
                continue
            begun, at, place = found
            yield from [text[told:begun]] if begun > told else []
            yield self._at(*place)
            told = at
        yield from [text[told:]] if told < len(text) else []

    def _again(self, text: str, low: int, at: int) -> tuple[int, int, list[Any]] | None:
        """Return from where to where a text is written already, around a place, and where that is.

        What is not yet told begins at `low`.
        """
        for whole, path in self._texts:
            start = whole.find(text[at : at + _WORTH])
            if start >= 0:
                back = 0
                while (
                    at - back > low
                    and start > back
                    and text[at - back - 1] == whole[start - back - 1]
                ):
                    back += 1
                size = _alike(text, at, whole, start)
                if self._take(path, start - back, start + size):
                    return at - back, at + size, [path, start - back, start + size]
        return None


def _alike(one: str, at: int, other: str, start: int) -> int:
    """Return for how long two texts go on alike."""
    size, step = 0, 1 << 16
    while step:
        piece = one[at + size : at + size + step]
        if len(piece) == step and other.startswith(piece, start + size):
            size += step
        else:
            step >>= 2
    return size


def _places(value: Any, path: list[Any]) -> Iterator[tuple[list[Any], Any]]:
    """Yield every value in a value, with the way to it."""
    yield path, value
    items: Any = value.items() if isinstance(value, dict) else ()
    for key, item in enumerate(value) if isinstance(value, list) else items:
        yield from _places(item, [*path, key])


# What it was


def restore_fields(made: Any, left: Mapping[str, Any], written: Any = None) -> Any:
    """Return what a difference was taken from."""
    whole = made if written is None else written
    if "=" in left:
        return thaw(left["="])
    if "^" in left:
        return _filled(left["^"], whole)
    if "#" in left:
        changed = left["#"]
        return [
            restore_fields(item, changed[str(at)], whole) if str(at) in changed else item
            for at, item in enumerate(made)
        ]
    kept = {key: value for key, value in made.items() if key not in left.get("-", ())}
    news = left.get("~", {})
    return kept | {key: restore_fields(kept.get(key), part, whole) for key, part in news.items()}


def _filled(shape: Any, written: Any) -> Any:
    if isinstance(shape, list):
        return [_filled(item, written) for item in shape]
    if not isinstance(shape, dict):
        return shape
    if "{" in shape:
        return {key: _filled(item, written) for key, item in shape["{"].items()}
    if "+" in shape:
        return "".join(_filled(item, written) for item in shape["+"])
    path, *ends = shape["@"]
    for key in path:
        written = written[key]
    return written[slice(*ends)] if ends else written


# What it says


def added_texts(left: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a difference adds to what is sent; what its parts are called is not counted."""
    if "=" in left:
        yield from _sayings(left["="], _FORM)
    elif "^" in left:
        yield from _sayings(left["^"], (*_FORM, "@"))
    for kind in ("~", "#"):
        for key, part in left.get(kind, {}).items():
            yield from added_texts(part) if key not in _FORM else ()


def _sayings(value: Any, silent: tuple[str, ...]) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _sayings(item, silent)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _sayings(item, silent) if key not in silent else ()
    elif value is not None:
        yield str(value)


_FORM = ("type", "role")
