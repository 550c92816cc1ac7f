"""Secrets: texts that no error, log or repr may tell, however they are written there.

A key comes back in many clothes: as it is, escaped by JSON, by Python's repr or by HTML, escaped
twice, percent-encoded, in hex, or in the Base64 of a header. One pattern knows them all. It is used
where an error is made, before anything is cut off, and once more at the door, on the error and on
what it was raised from: the exceptions of a library hold what was sent and what came back.
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
"""Shorter pieces of Base64 and hex would be found in texts that tell nothing."""
_LONGEST_LOOKED_AT = 1 << 16


class Secrets:
    """Takes secrets out of texts and exceptions."""

    def __init__(self, secrets: Iterable[str]) -> None:
        ways = sorted({way for secret in secrets if secret for way in _ways(secret)}, key=len)
        self._pattern = re.compile("|".join(reversed(ways))) if ways else None

    def __repr__(self) -> str:
        return "<Secrets>"

    def clean(self, text: str) -> str:
        """Return a text without them."""
        return text if self._pattern is None else self._pattern.sub(_HIDDEN, text)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Let no error pass that tells one, by itself or by what it was raised from."""
        outside = sys.exc_info()[1]  # what the caller is handling is the caller's
        try:
            yield
        except Error as error:
            self._hush(error, outside)
            raise

    def _hush(self, error: Error, outside: BaseException | None) -> None:
        seen: set[int] = set()
        waiting: list[BaseException] = [error]
        while waiting:
            each = waiting.pop()
            if id(each) in seen:
                continue
            seen.add(id(each))
            if isinstance(each, Error):
                self._reword(each)
            for name in ("__cause__", "__context__"):
                other = getattr(each, name)
                if other is None or other is outside:
                    continue
                if self._is_told_by(other):
                    setattr(each, name, None)
                    continue
                if not isinstance(other, Error):
                    other.__traceback__ = None  # its frames hold the headers that were sent
                waiting.append(other)

    def _reword(self, error: Error) -> None:
        error.args = tuple(self.clean(arg) if type(arg) is str else arg for arg in error.args)
        for name, value in list(vars(error).items()):
            if type(value) is str:
                setattr(error, name, self.clean(value))

    def _is_told_by(self, error: BaseException) -> bool:
        """Tell whether an exception that is not ours has a secret in it, or too much to look at."""
        if isinstance(error, Error):
            return False
        try:
            held = f"{error}\n{error!r}\n{error.args!r}\n{vars(error)!r}"
        except Exception:  # noqa: BLE001 - whatever a repr raises: it is not passed on
            return True
        return len(held) > _LONGEST_LOOKED_AT or self.clean(held) != held


def _ways(secret: str) -> Iterator[str]:
    """Yield patterns of all the ways in which a secret is written."""
    yield "".join(map(_sign, secret))
    data = secret.encode("utf-8", "surrogatepass")
    if len(data.hex()) >= _LEAST_ENCODED:
        yield f"(?i:{data.hex()})"
    for before in range(3):  # what stands before it decides where its bits fall
        text = b64encode(bytes(before) + data).decode()
        core = text[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        if len(core) >= _LEAST_ENCODED:
            yield re.escape(core)
            yield re.escape(core.replace("+", "-").replace("/", "_"))


def _sign(sign: str) -> str:
    """Return a pattern of all the ways in which one character is written."""
    code = ord(sign)
    data = sign.encode("utf-8", "surrogatepass")
    forms = [
        rf"\\{{0,4}}{re.escape(sign)}",
        rf"(?i:\\{{1,4}}(?:x{code:02x}|u{code:04x}|u\{{0*{code:x}\}}|U{code:08x}))",
        "(?i:" + "".join(rf"%(?:25){{0,2}}{byte:02x}" for byte in data) + ")",
        rf"(?i:&\#0{{0,4}}{code};|&\#x0{{0,4}}{code:x};)",
    ]
    if code < 256:
        forms.append(rf"\\{{1,4}}{code:03o}")
    if escape(sign) != sign:
        forms.append(re.escape(escape(sign)))
    if code > 0xFFFF:
        high, low = divmod(code - 0x10000, 0x400)
        pair = rf"\\{{1,4}}u{0xD800 + high:04x}\\{{1,4}}u{0xDC00 + low:04x}"
        forms.append(f"(?i:{pair})")
    elif code > 0x7F:
        forms.append("".join(rf"\\{{1,4}}x{byte:02x}" for byte in data))
    if sign == " ":
        forms.append(r"\+")
    return f"(?:{'|'.join(forms)})"
