"""Unknown fields: what a document had beyond what a message can hold, stored with the message.

A document is read into messages, and each message is written again. Where the written chunk is not
the one that was read, the difference is stored with the message, so that writing the message in
this format gives back what was read. A difference is plain data:

    {"=": value}                          put a value in place
    {"~": {key: difference}, "-": [key]}  change a dict
    {"#": {index: difference}}            change a list
    {"^": shape}                          put a value in place that repeats parts of the chunk

In a shape, `{"@": [path, start, stop]}` is the value that was written at a path, or a slice of the
text there; `{"+": [shape]}` is a text in pieces, `{"{": {key: shape}}` a dict; anything else stands
for itself. So a text that came as a list of one part is stored once, and the difference is only
that it came so. A shape refers to each stretch of the written chunk at most once, and only to what
is no longer where it was written: what a document says in two places is stored twice.

`"of"` holds a checksum of the written chunk. After a change of the message another chunk is
written, and the difference no longer applies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from otolith.conversation.formats.parts import sorted_json
from otolith.core import digest
from otolith.frozen import thaw

CHECKSUM = "of"
_META_PREFIX = ".as "
_CHECKSUM_BYTES = 4
_NAMES_OF_KINDS = ("type", "role")
"""Fields whose values name kinds of things; they are neither referred to nor counted."""
_MIN_VALUE_LETTERS, _MIN_PIECE_LETTERS = 3, 24
"""The shortest value, and piece of a text, that is searched for in what was written."""
_MAX_MISSES = 64
"""In how many places of a text nothing may be found before it is taken for new."""
_END = 1 << 62


def meta_key(format: str) -> str:
    """Return the key in `Message.meta` for the unknown fields of a format."""
    return f"{_META_PREFIX}{format}"


def is_meta_key(key: str) -> bool:
    """Return whether a key in `Message.meta` holds unknown fields; keys of users do not."""
    return key.startswith(_META_PREFIX)


def checksum(written: Any) -> str:
    """Return a checksum of a written chunk."""
    data = sorted_json(written).encode("utf-8", "surrogatepass")
    return digest(data)[:_CHECKSUM_BYTES].hex()


# Making a difference


def unknown_fields(written: Any, given: Any) -> dict[str, Any] | None:
    """Return the difference that turns the written chunk into the given one, stored compactly."""
    found = difference(written, given)
    return None if found is None else _shaped(found, _Repeats(written, list(_free_paths(found))))


def difference(written: Any, given: Any) -> dict[str, Any] | None:
    """Return the difference that turns one JSON value into another; None if they are equal."""
    if isinstance(written, dict) and isinstance(given, dict):
        parts = {
            key: difference(written[key], value) if key in written else {"=": value}
            for key, value in given.items()
        }
        changed = {key: part for key, part in parts.items() if part is not None}
        removed = sorted(key for key in written if key not in given)
        found = ({"~": changed} if changed else {}) | ({"-": removed} if removed else {})
        return found or None
    if isinstance(written, list) and isinstance(given, list) and len(written) == len(given):
        pairs = enumerate(zip(written, given, strict=True))
        parts = {str(at): difference(one, other) for at, (one, other) in pairs}
        changed = {at: part for at, part in parts.items() if part is not None}
        return {"#": changed} if changed else None
    is_same = type(written) is type(given) and written == given and repr(written) == repr(given)
    return None if is_same else {"=": given}


def _shaped(found: Mapping[str, Any], repeats: _Repeats) -> dict[str, Any]:
    """Return a difference whose values refer to what they repeat."""
    if "=" in found:
        shape, has_reference = repeats.shape(found["="])
        return {"^": shape} if has_reference else {"=": found["="]}
    inner = {
        kind: {key: _shaped(part, repeats) for key, part in found[kind].items()}
        for kind in ("~", "#")
        if kind in found
    }
    return {**found, **inner}


def _free_paths(found: Mapping[str, Any], path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of written values that a difference replaces or removes."""
    if "=" in found:
        yield path
    for key in found.get("-", ()):
        yield (*path, key)
    for key, part in found.get("~", {}).items():
        yield from _free_paths(part, (*path, key))
    for key, part in found.get("#", {}).items():
        yield from _free_paths(part, (*path, int(key)))


class _Repeats:
    """Finds values again that were written and then replaced or removed, each at most once."""

    def __init__(self, written: Any, free_paths: list[tuple[Any, ...]]) -> None:
        self._values = [
            (path, value)
            for path, value in _values(written, [])
            if any(tuple(path[: len(free)]) == free for free in free_paths)
        ]
        self._used: dict[str, list[tuple[int, int]]] = {}
        """The stretches at a path that are referred to already."""
        self._has_reference = False

    @cached_property
    def _paths(self) -> dict[str, list[Any]]:
        """Paths by the JSON of the value there; of equal values, the first."""
        found = [(sorted_json(value), path) for path, value in self._values]
        return {json: path for json, path in reversed(found) if len(json) >= _MIN_VALUE_LETTERS}

    def shape(self, value: Any) -> tuple[Any, bool]:
        """Return a value as a shape, and whether that refers to anything."""
        self._has_reference = False
        return self._shape(value), self._has_reference

    def _shape(self, value: Any) -> Any:
        """Return a value as a shape: a reference to it, or to parts of it, or itself."""
        if not isinstance(value, str | dict | list):
            return value
        path = self._paths.get(sorted_json(value))
        if path is not None and self._take(path, 0, _END):
            return self._reference(path)
        if isinstance(value, list):
            return list(map(self._shape, value))
        if isinstance(value, dict):
            inner = {
                key: item if key in _NAMES_OF_KINDS and isinstance(item, str) else self._shape(item)
                for key, item in value.items()
            }
            return {"{": inner}
        pieces = list(self._pieces(value))
        return {"+": pieces} if len(pieces) > 1 else pieces[0] if pieces else value

    def _reference(self, *place: Any) -> dict[str, Any]:
        self._has_reference = True
        return {"@": list(place)}

    def _take(self, path: list[Any], start: int, stop: int) -> bool:
        """Take a stretch of the value at a path, unless a part of it is taken already."""
        place = sorted_json(path)[:-1]
        for other, used in self._used.items():
            is_inside = other.startswith(place) or place.startswith(other)
            if is_inside and (other != place or any(a < stop and start < b for a, b in used)):
                return False
        self._used.setdefault(place, []).append((start, stop))
        return True

    def _pieces(self, text: str) -> Iterator[Any]:
        """Yield a text as pieces: references, and new text between them."""
        done, at, tries = 0, 0, _MAX_MISSES
        while at + _MIN_PIECE_LETTERS <= len(text) and tries:
            found = self._find(text, done, at)
            if found is None:
                at, tries = at + _MIN_PIECE_LETTERS, tries - 1
                continue
            start, at, place = found
            yield from [text[done:start]] if start > done else []
            yield self._reference(*place)
            done = at
        yield from [text[done:]] if done < len(text) else []

    def _find(self, text: str, low: int, at: int) -> tuple[int, int, list[Any]] | None:
        """Return start and end of the stretch around `at` that was written, and its place.

        The stretch does not begin before `low`.
        """
        for path, whole in self._values:
            start = whole.find(text[at : at + _MIN_PIECE_LETTERS]) if isinstance(whole, str) else -1
            if start < 0:
                continue
            back = 0
            while (
                at - back > low and start > back and text[at - back - 1] == whole[start - back - 1]
            ):
                back += 1
            size = _common_length(text, at, whole, start)
            if self._take(path, start - back, start + size):
                return at - back, at + size, [path, start - back, start + size]
        return None


def _common_length(one: str, at: int, other: str, start: int) -> int:
    """Return how many letters of two texts are equal from two places on."""
    size, step = 0, 1 << 16
    while step:
        piece = one[at + size : at + size + step]
        if len(piece) == step and other.startswith(piece, start + size):
            size += step
        else:
            step >>= 2
    return size


def _values(value: Any, path: list[Any]) -> Iterator[tuple[list[Any], Any]]:
    """Yield every value inside a value, with its path."""
    yield path, value
    items: Any = value.items() if isinstance(value, dict) else ()
    for key, item in enumerate(value) if isinstance(value, list) else items:
        yield from _values(item, [*path, key])


# Applying a difference


def restore_fields(written: Any, found: Mapping[str, Any], root: Any = None) -> Any:
    """Return the value that a difference turns a written value into; `root` is the whole chunk."""
    root = written if root is None else root
    if "=" in found:
        return thaw(found["="])
    if "^" in found:
        return _filled(found["^"], root)
    if "#" in found:
        changed = found["#"]
        return [
            restore_fields(item, changed[str(at)], root) if str(at) in changed else item
            for at, item in enumerate(written)
        ]
    rest = {key: value for key, value in written.items() if key not in found.get("-", ())}
    changed = found.get("~", {})
    return rest | {key: restore_fields(rest.get(key), part, root) for key, part in changed.items()}


def _filled(shape: Any, written: Any) -> Any:
    """Return the value of a shape."""
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


# Counting a difference


def added_texts(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts that a difference adds to what is sent, without names of kinds."""
    if "=" in found:
        yield from _texts(found["="], _NAMES_OF_KINDS)
    elif "^" in found:
        yield from _texts(found["^"], (*_NAMES_OF_KINDS, "@"))
    for kind in ("~", "#"):
        for key, part in found.get(kind, {}).items():
            yield from added_texts(part) if key not in _NAMES_OF_KINDS else ()


def _texts(value: Any, skipped: tuple[str, ...]) -> Iterator[str]:
    """Yield the texts in plain data, without those under some keys."""
    if isinstance(value, list):
        for item in value:
            yield from _texts(item, skipped)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, skipped) if key not in skipped else ()
    elif value is not None:
        yield str(value)
