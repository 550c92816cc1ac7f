"""Secrets: texts that no error, log or repr may contain, in whatever encoding.

A key comes back in many forms: plain, escaped by JSON, by Python's repr or by HTML, escaped twice,
percent-encoded, in hex, or in the Base64 of a header. One pattern matches all of them. It is used
where an error is made, before any text is cut off, and again when the error leaves, on the error
and on what it was raised from: exceptions of a library hold what was sent and what came back.
"""

from __future__ import annotations

import re
import sys
from base64 import b64encode
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from html import escape

from otolith.errors import Error

_HIDDEN = "***"
_LEAST_ENCODED = 8
"""Shorter pieces of Base64 and hex would match harmless text."""
_LONGEST_EXCEPTION = 1 << 16
"""What is longer is dropped without a search."""


class Secrets:
    """Removes secrets from texts and exceptions."""

    def __init__(self, secrets: Iterable[str]) -> None:
        patterns = {each for secret in secrets if secret for each in _patterns(secret)}
        longest_first = sorted(patterns, key=len, reverse=True)
        self._pattern = re.compile("|".join(longest_first)) if patterns else None

    def __repr__(self) -> str:
        return "<Secrets>"

    def redact(self, text: str) -> str:
        """Return a text with *** in place of each secret."""
        return text if self._pattern is None else self._pattern.sub(_HIDDEN, text)

    @contextmanager
    def redacted_errors(self) -> Iterator[None]:
        """Return a context that removes secrets from errors that leave it, with their causes."""
        outside = sys.exc_info()[1]  # an exception that the caller handles is not ours to change
        try:
            yield
        except Error as error:
            self._redact_error(error, outside)
            raise

    def _redact_error(self, error: Error, outside: BaseException | None) -> None:
        seen: set[int] = set()
        waiting: list[BaseException] = [error]
        while waiting:
            each = waiting.pop()
            if id(each) in seen:
                continue
            seen.add(id(each))
            if isinstance(each, Error):
                each.args = tuple(self.redact(a) if type(a) is str else a for a in each.args)
                texts = {name: text for name, text in vars(each).items() if type(text) is str}
                vars(each).update({name: self.redact(text) for name, text in texts.items()})
            for name in ("__cause__", "__context__"):
                other = getattr(each, name)
                if other is None or other is outside:
                    continue
                if self._is_unsafe(other):
                    setattr(each, name, None)
                    continue
                if not isinstance(other, Error):
                    other.__traceback__ = None  # its frames hold the headers that were sent
                waiting.append(other)

    def _is_unsafe(self, error: BaseException) -> bool:
        """Tell whether an exception of a library contains a secret, or too much to search."""
        if isinstance(error, Error):
            return False
        try:
            content = f"{error}\n{error!r}\n{error.args!r}\n{vars(error)!r}"
        except Exception:  # noqa: BLE001 - a repr may raise anything
            return True
        return len(content) > _LONGEST_EXCEPTION or self.redact(content) != content


def _patterns(secret: str) -> Iterator[str]:
    """Yield patterns of all the encodings of a secret."""
    yield "".join(map(_character_pattern, secret))
    data = secret.encode("utf-8", "surrogatepass")
    if len(data.hex()) >= _LEAST_ENCODED:
        yield f"(?i:{data.hex()})"
    for before in range(3):  # the bytes before it decide how its bits are grouped
        text = b64encode(bytes(before) + data).decode()
        core = text[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        if len(core) >= _LEAST_ENCODED:
            yield re.escape(core)
            yield re.escape(core.replace("+", "-").replace("/", "_"))


def _character_pattern(character: str) -> str:
    """Return a pattern of all the encodings of one character."""
    code = ord(character)
    data = character.encode("utf-8", "surrogatepass")
    forms = [
        rf"\\{{0,4}}{re.escape(character)}",
        rf"(?i:\\{{1,4}}(?:x{code:02x}|u{code:04x}|u\{{0*{code:x}\}}|U{code:08x}))",
        "(?i:" + "".join(rf"%(?:25){{0,2}}{byte:02x}" for byte in data) + ")",
        rf"(?i:&\#0{{0,4}}{code};|&\#x0{{0,4}}{code:x};)",
    ]
    if code < 256:
        forms.append(rf"\\{{1,4}}{code:03o}")
    if escape(character) != character:
        forms.append(re.escape(escape(character)))
    if code > 0xFFFF:
        high, low = divmod(code - 0x10000, 0x400)
        pair = rf"\\{{1,4}}u{0xD800 + high:04x}\\{{1,4}}u{0xDC00 + low:04x}"
        forms.append(f"(?i:{pair})")
    elif code > 0x7F:
        forms.append("".join(rf"\\{{1,4}}x{byte:02x}" for byte in data))
    if character == " ":
        forms.append(r"\+")
    return f"(?:{'|'.join(forms)})"
