"""What a process finds around it: time, chance, memory, the user's name and secret for signing.

Nothing here is used but as the default of an argument; whoever gives the argument is not asked.

    OTOLITH_KEY         the secret itself: 32 bytes, as hexadecimal or base64
    OTOLITH_KEY_FILE    a file that holds it, in the same form
    (neither)           otolith/key under $XDG_DATA_HOME, or else ~/.local/share;
                        under %APPDATA% on Windows

A file that is missing is made, readable by its owner only. A secret is 32 bytes from the operating
system; it is in no message, no log and no repr.
"""

from __future__ import annotations

import getpass
import os
import stat
import time
from base64 import b64decode
from pathlib import Path

from otolith.errors import Denied, Invalid, Unavailable

SECRET_BYTES = 32

_ELSEWHERE = "set OTOLITH_KEY_FILE to a file in a place that can be written, or OTOLITH_KEY"
_FORM = f"it holds {SECRET_BYTES} bytes, as 64 hexadecimal digits or as base64"
_LONGEST_FILE = 1024


def wall_clock() -> int:
    """Microseconds since 1970, as this machine sees it."""
    return time.time_ns() // 1000


def entropy(size: int) -> bytes:
    """Random bytes from the operating system."""
    return os.urandom(size)


def memory_bytes() -> int:
    """How much memory this machine has; where that cannot be told, 64 GiB."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 1 << 36


def user_name() -> str:
    """The name the user is logged in by."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "otolith"


def secret() -> bytes:
    """Return the user's secret for signing; the first to ask makes it.

    Raises:
        Invalid: what is there is no secret.
        Denied: it may not be read or made, or others can read it.
        Unavailable: the disk would not have it.
    """
    given = os.environ.get("OTOLITH_KEY")
    if given:
        return _parse(given, "OTOLITH_KEY")
    path = secret_file()
    found = _read(path)
    if found is None:
        _make(path)
        found = _read(path)
    if found is None:
        raise Unavailable(f"the key file {path} was removed as it was made", hint="try again")
    return found


def secret_file() -> Path:
    """Return the file that the user's secret is kept in, unless OTOLITH_KEY gives the secret."""
    named = os.environ.get("OTOLITH_KEY_FILE")
    return Path(named).absolute() if named else _data_home() / "otolith" / "key"


def _data_home() -> Path:
    variable = "APPDATA" if os.name == "nt" else "XDG_DATA_HOME"
    given = Path(os.environ.get(variable, ""))
    if given.is_absolute():  # others are to be ignored, says the specification of XDG
        return given
    try:
        home = Path.home()
    except RuntimeError as error:
        raise Unavailable("there is no home directory to keep a key in", hint=_ELSEWHERE) from error
    return home / "AppData" / "Roaming" if os.name == "nt" else home / ".local" / "share"


def _read(path: Path) -> bytes | None:
    # O_NONBLOCK: a pipe in the place of the file must be an error, not a wait without end.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        file = os.open(path, flags)
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise Denied(f"the key file {path} cannot be read", hint="check its owner") from error
    except OSError as error:
        raise _unavailable(path, error) from error
    try:
        _check_private(path, os.fstat(file))
        text = os.read(file, _LONGEST_FILE)
    finally:
        os.close(file)
    return _parse(text.decode("ascii", "replace"), f"the key file {path}")


def _check_private(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise Invalid(f"the key file {path} is not a file", hint=_ELSEWHERE)
    mode = stat.S_IMODE(found.st_mode)
    if os.name != "nt" and mode & 0o077:
        raise Denied(
            f"the key file {path} is open to others (mode {mode:03o})",
            hint=f"chmod 600 {path}; if somebody may have read it, remove it and start anew",
        )


def _parse(text: str, where: str) -> bytes:
    """Return a secret from text. What the text was is not said."""
    text = text.strip()
    try:
        found = bytes.fromhex(text) if len(text) == 2 * SECRET_BYTES else _from_base64(text)
    except ValueError:
        found = b""
    if len(found) != SECRET_BYTES:
        raise Invalid(f"{where} holds no key that can be used", hint=_FORM)
    return found


def _from_base64(text: str) -> bytes:
    padded = text + "=" * (-len(text) % 4)
    return b64decode(padded.replace("-", "+").replace("_", "/"), validate=True)


def _make(path: Path) -> None:
    """Make the file whole or not at all; where two make it at once, the first one's stays."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(8).hex()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_new(draft, os.urandom(SECRET_BYTES).hex() + "\n")
        try:
            _publish(draft, path)
        finally:
            draft.unlink()
    except PermissionError as error:
        raise Denied(f"no key file can be made at {path}", hint=_ELSEWHERE) from error
    except OSError as error:
        raise _unavailable(path, error) from error


def _write_new(path: Path, text: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "w", encoding="ascii", newline="\n") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(file)


def _publish(draft: Path, path: Path) -> None:
    try:
        os.link(draft, path)  # unlike a rename, it never replaces what another has put there
    except FileExistsError:
        return
    except OSError:  # a file system without links
        try:
            _write_new(path, draft.read_text(encoding="ascii"))
        except FileExistsError:
            return


def _unavailable(path: Path, error: OSError) -> Unavailable:
    return Unavailable(f"the key file {path}: {error.strerror or error}", hint=_ELSEWHERE)
