"""Images of Pillow, stored as their pixels.

Form (it never changes, see `docs/reference/format-v1.md`)

    IMAGE  {"mode": str, "size": [width, height], "pixels": raw bytes,
            "palette": None or [mode, bytes], "info": {str: plain data}}

Pixels are rows from the top, without padding, in the byte order of the mode's name. What comes back
is an `Image.Image`, whatever file the image came from: the format of a file is not part of a
picture. Of an animation, the current frame is stored. Of `info`, plain data is stored
(transparency, resolution, gamma, comments, profiles, Exif); objects of plugins are not.
"""

from __future__ import annotations

from typing import Any

from PIL import Image, UnidentifiedImageError

from otolith.codecs.base import VERIFY, Lowering
from otolith.codecs.buffers import join_chunks
from otolith.errors import BadValue, Corrupt, UnknownType
from otolith.types import Raw, Tag, Tagged

# Bits of a pixel in the raw form of its mode.
_BITS = {
    "1": 1, "L": 8, "P": 8, "LA": 16, "PA": 16, "La": 16, "RGB": 24, "YCbCr": 24, "LAB": 24,
    "HSV": 24, "RGBA": 32, "RGBX": 32, "RGBa": 32, "CMYK": 32, "I": 32, "F": 32,
    "I;16": 16, "I;16L": 16, "I;16B": 16, "I;16N": 16,
}  # fmt: skip
_PALETTED = ("P", "PA")
_PALETTES = {"RGB": 3, "RGBA": 4}
_PLAIN = (type(None), bool, int, float, str, bytes)
_UNREADABLE = (OSError, SyntaxError, UnidentifiedImageError, ValueError, EOFError)
_KEYS = {"mode", "size", "pixels", "palette", "info"}


class ImageCodec:
    """The codec of images."""

    codes: frozenset[int] = frozenset({Tag.IMAGE})

    def lowering(self, kind: type) -> Lowering | None:
        """Return the function that lowers images, whichever plugin read them."""
        return _lower if issubclass(kind, Image.Image) else None

    def lift(self, code: int, data: object) -> object:
        """Return a new image with the stored pixels, palette and info."""
        if type(data) is not dict or data.keys() != _KEYS:
            raise Corrupt("an image is not stored as its parts", hint=VERIFY)
        mode, (width, height) = data["mode"], _size(data["size"])
        if type(mode) is not str or mode not in _BITS:
            raise UnknownType(f"images of the mode {mode!r:.40} are not known here")
        pixels = join_chunks(data["pixels"], size=(width * _BITS[mode] + 7) // 8 * height)
        image = _image(mode, (width, height), bytes(pixels))
        _set_palette(image, data["palette"])
        image.info = _plain_info(data["info"])
        return image


def _lower(value: Image.Image) -> Tagged:
    try:
        value.load()
    except _UNREADABLE as error:
        raise BadValue(
            f"cannot store an image whose file cannot be read: {error}", hint="load() it first"
        ) from error
    if value.mode not in _BITS:
        raise BadValue(
            f"cannot store an image of the mode {value.mode}", hint="convert() it to another mode"
        )
    data = {
        "mode": value.mode,
        "size": list(value.size),
        "pixels": Raw(value.tobytes() if all(value.size) else b""),
        "palette": _palette(value),
        "info": {key: _plain(part) for key, part in value.info.items() if _is_storable(key, part)},
    }
    return Tagged(Tag.IMAGE, data)


def _image(mode: str, size: tuple[int, int], pixels: bytes) -> Image.Image:
    if not all(size):
        return Image.new(mode, size)
    try:
        return Image.frombytes(mode, size, pixels)
    except (ValueError, OverflowError, MemoryError, OSError) as error:
        raise Corrupt(f"not an image of {mode} and {size}: {error}", hint=VERIFY) from error


def _size(data: object) -> tuple[int, int]:
    if type(data) is list and len(data) == 2:
        width, height = data
        if all(type(each) is int and 0 <= each < 2**31 for each in (width, height)):
            return width, height
    raise Corrupt("the size of an image is not its width and height", hint=VERIFY)


def _palette(value: Image.Image) -> list[object] | None:
    if value.mode not in _PALETTED or value.palette is None:
        return None
    mode = value.palette.mode if value.palette.mode in _PALETTES else "RGB"
    return [mode, bytes(value.getpalette(mode) or [])]


def _set_palette(image: Image.Image, data: object) -> None:
    """Give an image its palette, once that is known to be one."""
    if data is None:
        return
    if type(data) is not list or len(data) != 2 or image.mode not in _PALETTED:
        raise Corrupt("the palette of an image is not one", hint=VERIFY)
    mode, colours = data
    if type(mode) is not str or mode not in _PALETTES or type(colours) is not bytes:
        raise Corrupt("the palette of an image has no colours", hint=VERIFY)
    if len(colours) % _PALETTES[mode] or len(colours) > 256 * _PALETTES[mode]:
        raise Corrupt(f"a palette of {mode} has {len(colours)} bytes", hint=VERIFY)
    image.putpalette(colours, mode)


def _plain_info(data: object) -> dict[str | tuple[int, int], Any]:
    if type(data) is not dict or not all(_is_storable(*pair) for pair in data.items()):
        raise Corrupt("the info of an image is not plain data", hint=VERIFY)
    return dict(data)


def _is_storable(key: object, part: object) -> bool:
    return isinstance(key, str) and _is_plain(part, 0)


def _is_plain(part: object, depth: int) -> bool:
    """Return whether this is plain data that is not nested too deeply."""
    if isinstance(part, list | tuple) and type(part).__module__ == "builtins":
        return depth < 20 and all(_is_plain(each, depth + 1) for each in part)
    if isinstance(part, dict):
        pairs = part.items()
        return depth < 20 and all(
            type(key) in _PLAIN and _is_plain(each, depth + 1) for key, each in pairs
        )
    return type(part) in _PLAIN or isinstance(part, str)


def _plain(part: Any) -> Any:
    """Return plain data in built-in types: text from a PNG is of a subclass of str."""
    if isinstance(part, str):
        return str.__str__(part)
    if isinstance(part, list | tuple):
        return type(part)(map(_plain, part))
    return {key: _plain(each) for key, each in part.items()} if isinstance(part, dict) else part


CODEC = ImageCodec()
