"""The secret is found or made, once, for its owner alone; and is never told."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from base64 import b64encode, urlsafe_b64encode
from pathlib import Path
from typing import Any

import pytest

from otolith import environment
from otolith.errors import Denied, Error, Invalid, Unavailable
from tests.patience import HANG_SECONDS

SECRET = bytes(range(200, 232))
POSIX = pytest.mark.skipif(os.name == "nt", reason="modes and links are those of POSIX")
NOT_ROOT = pytest.mark.skipif(
    hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write everywhere"
)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """An empty home, and no variable that points elsewhere."""
    for name in ("OTOLITH_KEY", "OTOLITH_KEY_FILE", "XDG_DATA_HOME", "APPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    return tmp_path


def kept(path, text, mode=0o600):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


# ---------------------------------------------------------------- where it is


@pytest.mark.parametrize(
    "text",
    [
        SECRET.hex(),
        SECRET.hex().upper(),
        f"  {SECRET.hex()}\n",
        b64encode(SECRET).decode(),
        b64encode(SECRET).decode().rstrip("="),
        urlsafe_b64encode(SECRET).decode(),
    ],
)
def test_a_secret_is_given_as_hexadecimal_or_base64(text, monkeypatch):
    monkeypatch.setenv("OTOLITH_KEY", text)

    assert environment.secret() == SECRET


def test_a_given_secret_touches_no_file(home, monkeypatch):
    monkeypatch.setenv("OTOLITH_KEY", SECRET.hex())
    environment.secret()

    assert list(home.iterdir()) == []


def test_the_variable_goes_before_the_file_and_the_named_file_before_the_home(home, monkeypatch):
    default = environment.secret()
    monkeypatch.setenv("OTOLITH_KEY_FILE", str(kept(home / "named", (b"n" * 32).hex())))
    named = environment.secret()
    monkeypatch.setenv("OTOLITH_KEY", SECRET.hex())

    assert (named, environment.secret()) == (b"n" * 32, SECRET)
    assert default not in (named, SECRET)


@POSIX
def test_the_file_is_where_data_of_the_user_goes(home, monkeypatch):
    assert environment.secret_file() == home / ".local/share/otolith/key"
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    assert environment.secret_file() == home / "data/otolith/key"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert environment.secret_file() == home / ".local/share/otolith/key"


def test_an_empty_variable_is_as_if_it_were_not_there(home, monkeypatch):
    for name in ("OTOLITH_KEY", "OTOLITH_KEY_FILE", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, "")

    assert len(environment.secret()) == 32
    assert home in environment.secret_file().parents


# ---------------------------------------------------------------- how it is made


def test_a_secret_is_made_once_and_found_again():
    first = environment.secret()

    assert len(first) == 32
    assert environment.secret() == first
    assert [path.name for path in environment.secret_file().parent.iterdir()] == ["key"]


def test_two_homes_have_two_secrets(home, monkeypatch):
    first = environment.secret()
    monkeypatch.setenv("OTOLITH_KEY_FILE", str(home / "new" / "place"))

    assert environment.secret() != first


@POSIX
def test_only_its_owner_can_read_it_whatever_the_umask():
    former = os.umask(0)
    try:
        environment.secret()
    finally:
        os.umask(former)

    assert environment.secret_file().stat().st_mode & 0o777 == 0o600


def test_the_text_of_the_file_can_be_given_as_the_variable(monkeypatch):
    made = environment.secret()
    monkeypatch.setenv("OTOLITH_KEY", environment.secret_file().read_text())

    assert environment.secret() == made


def test_processes_that_make_it_at_once_end_with_one():
    program = (
        "import sys; from otolith import environment as ambient\n"
        "print('ready', flush=True); sys.stdin.readline(); print(ambient.secret().hex())"
    )
    racers: list[Any] = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(6)
    ]
    assert [racer.stdout.readline() for racer in racers] == ["ready\n"] * 6
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    answers = {racer.communicate(timeout=HANG_SECONDS)[0].strip() for racer in racers}

    assert answers == {environment.secret().hex()}
    assert [path.name for path in environment.secret_file().parent.iterdir()] == ["key"]


def test_where_another_was_first_his_stays(home, monkeypatch):
    made = os.link

    def late(draft, path):
        kept(Path(path), SECRET.hex())
        made(draft, path)

    monkeypatch.setattr(os, "link", late)

    assert environment.secret() == SECRET


@pytest.mark.parametrize("is_late", [False, True])
def test_a_file_system_without_links_will_do(is_late, monkeypatch):
    def without(draft, path):
        if is_late:
            kept(Path(path), SECRET.hex())
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", without)
    made = environment.secret()

    assert (made == SECRET) == is_late
    assert environment.secret() == made
    assert [path.name for path in environment.secret_file().parent.iterdir()] == ["key"]


# ---------------------------------------------------------------- what is wrong with it


BAD = [
    "",
    "x",
    SECRET.hex()[:-1],
    SECRET.hex() + "0",
    " ".join(["ab"] * 22)[:64],
    "é" * 32,
    "=" * 44,
]


@pytest.mark.parametrize("text", BAD[1:])
def test_a_variable_that_is_no_secret_is_named_and_not_shown(text, monkeypatch):
    monkeypatch.setenv("OTOLITH_KEY", text)

    with pytest.raises(Invalid, match="OTOLITH_KEY does not hold a valid key") as raised:
        environment.secret()

    assert len(text) < 8 or text[:8] not in _all_it_says(raised.value)


@pytest.mark.parametrize("text", BAD)
def test_a_file_that_is_half_written_or_too_long_is_named_and_left_alone(text):
    path = kept(environment.secret_file(), text)

    with pytest.raises(Invalid, match=r"otolith.key does not hold a valid key") as raised:
        environment.secret()

    assert path.read_text() == text
    assert len(text) < 8 or text[:8] not in _all_it_says(raised.value)


@POSIX
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666, 0o660])
def test_a_file_that_others_can_read_is_refused(mode):
    path = kept(environment.secret_file(), SECRET.hex(), mode)

    with pytest.raises(Denied, match=f"open to others .mode {mode:03o}") as raised:
        environment.secret()

    assert f"chmod 600 {path}" in raised.value.hint
    assert SECRET.hex() not in _all_it_says(raised.value)


@POSIX
@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_is_refused_and_nobody_waits_for_it(make, home, monkeypatch):
    make(home / "odd")
    (home / "odd").chmod(0o700)
    monkeypatch.setenv("OTOLITH_KEY_FILE", str(home / "odd"))

    with pytest.raises(Invalid, match="is not a file"):
        environment.secret()


@POSIX
@NOT_ROOT
def test_a_home_that_cannot_be_written_to_is_an_error_with_a_way_out(home):
    home.chmod(0o500)
    try:
        with pytest.raises(Denied, match="cannot make a key file") as raised:
            environment.secret()
    finally:
        home.chmod(0o700)

    assert "OTOLITH_KEY_FILE" in raised.value.hint


@pytest.mark.parametrize(
    ("raised", "kind"),
    [(PermissionError(13, "no"), Denied), (OSError(30, "read-only"), Unavailable)],
)
def test_what_the_disk_refuses_is_an_error_with_a_way_out(raised, kind, monkeypatch):
    def refuse(*_args, **_options):
        raise raised

    monkeypatch.setattr(Path, "mkdir", refuse)

    with pytest.raises(kind) as error:
        environment.secret()

    assert "OTOLITH_KEY_FILE" in error.value.hint


def test_a_file_in_the_way_of_the_folder_is_an_error(home):
    (home / ".local").write_text("")
    (home / "AppData").write_text("")

    with pytest.raises(Unavailable, match="key"):
        environment.secret()


def test_no_home_is_an_error_with_a_way_out(monkeypatch):
    def nowhere():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)

    with pytest.raises(Unavailable) as raised:
        environment.secret()

    assert "OTOLITH_KEY_FILE" in raised.value.hint


def _all_it_says(error: Error) -> str:
    causes = [error.__cause__, error.__context__]
    return " ".join([str(error), repr(vars(error)), *map(repr, causes)])


# ---------------------------------------------------------------- the others


def test_the_clock_is_that_of_the_machine():
    assert abs(environment.wall_clock() - time.time() * 1e6) < 60e6


def test_a_user_without_a_name_is_called_otolith(monkeypatch):
    def nobody():
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr("getpass.getuser", nobody)

    assert environment.user_name() == "otolith"


LEAVES = """
import otolith, sys
from otolith import Flow
flow = Flow("f")
flow.task(lambda: 1, name="a")
with otolith.open("memory:") as repo:
    repo.session("x").flow(flow).work(workers=int(sys.argv[1]))
"""


@pytest.mark.parametrize("workers", ["1", "4"])
def test_a_program_that_has_worked_on_a_flow_ends_without_a_word(workers):
    command = [sys.executable, "-c", LEAVES, workers]
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=HANG_SECONDS, check=True
    )

    assert (ended.stdout, ended.stderr) == ("", "")


def test_what_is_called_at_the_end_does_not_keep_its_object():
    class Owner:
        def leave(self) -> None:
            """Do nothing."""

    before, owner = len(environment._at_exit), Owner()
    environment.call_at_exit(owner.leave)
    assert len(environment._at_exit) == before + 1
    del owner
    assert len(environment._at_exit) == before
