"""The machine: clock, random bytes, memory, the user's name and secret, the end of the interpreter.

Almost everything here is the default of an argument above, and only used if it is left out.

    OTOLITH_KEY         the secret itself: 32 bytes, as hexadecimal or base64
    OTOLITH_KEY_FILE    a file that holds it, in the same form
    (neither)           otolith/key under $XDG_DATA_HOME, or else ~/.local/share;
                        under %APPDATA% on Windows

A file that is missing is made, readable by its owner only. A secret is 32 bytes from the operating
system; it is in no message, no log and no repr.

The variable and the file may hold several secrets, separated by spaces, line breaks or commas. The
first one signs; what any of them signed is read. `rotate_secret` puts a new one first.
"""

from __future__ import annotations

import atexit
import getpass
import os
import shutil
import stat
import sys
import time
import warnings
from base64 import b64decode
from collections.abc import Callable, Iterator
from pathlib import Path
from random import random
from tempfile import mkdtemp
from types import MethodType
from typing import Any
from weakref import finalize, ref

from otolith.errors import Busy, Denied, Invalid, Unavailable

SECRET_BYTES = 32

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

_ELSEWHERE = "set OTOLITH_KEY_FILE to a file in a place that can be written, or OTOLITH_KEY"
_FORM = f"it holds {SECRET_BYTES} bytes, as 64 hexadecimal digits or as base64"
_LONGEST_FILE = 1 << 16
_FIRST_PAUSE_SECONDS = 0.02
_LONGEST_PAUSE_SECONDS = 2.0


def wall_clock() -> int:
    """Return the time of this machine, in microseconds since 1970."""
    return time.time_ns() // 1000


def uptime() -> tuple[str, int]:
    """Return a name of the time since this machine was started, and its length in microseconds.

    All processes of a machine have the same, whatever is done to its clock. The name is empty where
    the system has none: then nothing is known about other processes.
    """
    try:
        name = _BOOT_ID.read_text().strip()
        return name, time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
    except (OSError, AttributeError):
        return "", time.monotonic_ns() // 1000


def pauses(limit_seconds: float) -> Iterator[None]:
    """Wait and yield, each time for about twice as long, until the time is over.

    Each pause is a random part of that: those who failed together do not come back together.
    """
    deadline = time.monotonic() + limit_seconds
    pause = _FIRST_PAUSE_SECONDS
    while (left := deadline - time.monotonic()) > 0:
        time.sleep(min(left, pause * (0.5 + random() / 2)))
        yield
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


def entropy(size: int) -> bytes:
    """Return random bytes of the operating system."""
    return os.urandom(size)


def memory_bytes() -> int:
    """Return the memory of this machine; 64 GiB where that is unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 1 << 36


def temporary_folder(owner: object) -> str:
    """Make a folder, and remove it with all that is in it when its owner or this process ends."""
    folder = mkdtemp(prefix="otolith-")
    finalize(owner, _remove_folder, folder, os.getpid())
    return folder


def _remove_folder(folder: str, process: int) -> None:
    if os.getpid() == process:  # a forked child has the owner too, and it is not the child's folder
        shutil.rmtree(folder, ignore_errors=True)


def user_name() -> str:
    """Return the login name of the user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "otolith"


def secret() -> bytes:
    """Return the secret that this user signs with; see `secrets`."""
    return secrets()[0]


def secrets() -> tuple[bytes, ...]:
    """Return the user's secrets: the first one signs; the first call creates it.

    Raises:
        Invalid: the file or the variable does not hold a secret.
        Denied: the file cannot be read or made, or other users can read it.
        Unavailable: the disk failed.
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


def rotate_secret(*, forget_others: bool = False) -> tuple[bytes, ...]:
    """Put a new secret first in the key file, and return all; the others are still read.

    With `forget_others` nothing is made: all but the first are removed from the file.

    Raises:
        Invalid: OTOLITH_KEY is set, so that the file is not used.
        Busy: another process changes the file.
        Denied, Unavailable: as for `secrets`.
    """
    if os.environ.get("OTOLITH_KEY"):
        raise Invalid(
            "OTOLITH_KEY is set, and the key file is not used",
            hint="put a new key first in OTOLITH_KEY, and the old one after it",
        )
    secrets()
    path = secret_file()
    lock, draft = (path.with_name(f".{path.name}.{end}") for end in ("lock", "new"))
    try:
        _write_new(lock, "")
        try:
            known = _read(path) or ()  # again: another process may have been faster
            made = known[:1] if forget_others else (os.urandom(SECRET_BYTES), *known)
            draft.unlink(missing_ok=True)
            _write_new(draft, "".join(f"{each.hex()}\n" for each in made))
            draft.replace(path)
        finally:
            lock.unlink()
    except FileExistsError as error:
        raise Busy(
            f"another process changes the key file {path}",
            hint=f"try again; if none does, remove {lock}",
        ) from error
    except PermissionError as error:
        raise Denied(f"the key file {path} cannot be changed", hint="check its owner") from error
    except OSError as error:
        raise _unavailable(path, error) from error
    return made


def secret_file() -> Path:
    """Return the file of the user's secret; it is not used if OTOLITH_KEY is set."""
    named = os.environ.get("OTOLITH_KEY_FILE")
    return Path(named).absolute() if named else _data_home() / "otolith" / "key"


def _data_home() -> Path:
    variable = "APPDATA" if os.name == "nt" else "XDG_DATA_HOME"
    given = Path(os.environ.get(variable, ""))
    if given.is_absolute():  # the XDG specification says to ignore others
        return given
    try:
        home = Path.home()
    except RuntimeError as error:
        raise Unavailable("no home directory to store a key in", hint=_ELSEWHERE) from error
    return home / "AppData" / "Roaming" if os.name == "nt" else home / ".local" / "share"


def _read(path: Path) -> tuple[bytes, ...] | None:
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
            hint=f"chmod 600 {path}; if another user may have read it, remove it",
        )


def _parse(text: str, where: str) -> tuple[bytes, ...]:
    """Return the secrets in a text. No message contains the text."""
    found = tuple(map(_parse_one, text.replace(",", " ").split()))
    if not found or any(len(each) != SECRET_BYTES for each in found):
        raise Invalid(f"{where} does not hold a valid key", hint=_FORM)
    return found


def _parse_one(text: str) -> bytes:
    """Return one secret; b"" if the text is not one."""
    try:
        if len(text) == 2 * SECRET_BYTES:
            return bytes.fromhex(text)
        padded = text + "=" * (-len(text) % 4)
        return b64decode(padded.replace("-", "+").replace("_", "/"), validate=True)
    except ValueError:
        return b""


def _make(path: Path) -> None:
    """Make the file, complete or not at all; if two processes do, the first one's file stays."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(8).hex()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_new(draft, os.urandom(SECRET_BYTES).hex() + "\n")
        try:
            _publish(draft, path)
        finally:
            draft.unlink()
    except PermissionError as error:
        raise Denied(f"cannot make a key file at {path}", hint=_ELSEWHERE) from error
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
        os.link(draft, path)  # unlike a rename, it never replaces the file of another process
    except FileExistsError:
        return
    except OSError:  # a file system without links
        try:
            _write_new(path, draft.read_text(encoding="ascii"))
        except FileExistsError:
            return


def _unavailable(path: Path, error: OSError) -> Unavailable:
    return Unavailable(f"the key file {path}: {error.strerror or error}", hint=_ELSEWHERE)


# The end of the interpreter


def hides_resource_warnings() -> bool:
    """Tell whether a ResourceWarning would be ignored, whatever it says; Python's default."""
    if sys.is_finalizing():
        return True
    for action, message, category, module, _ in warnings.filters:
        if issubclass(ResourceWarning, category):
            return action == "ignore" and message is None and module is None
    return False


_at_exit: dict[ref[object], Callable[[Any], None]] = {}


def call_at_exit(method: Callable[[], None]) -> None:
    """Call a method when the interpreter ends, if its object is still there."""
    assert isinstance(method, MethodType)
    # No WeakMethod: its callback is in Python, and fails when an object goes after modules have.
    _at_exit[ref(method.__self__, _at_exit.pop)] = method.__func__


@atexit.register
def _call_methods() -> None:
    for reference, function in list(_at_exit.items()):
        found = reference()
        if found is not None:
            function(found)
