"""Sandboxes: programs that attack from inside each rung, and what the rung had promised."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from otolith.errors import Invalid, Unsupported
from otolith.workspace.sandbox import (
    ResourceLimits,
    SandboxSpec,
    base,
    choose_sandbox,
    kernel,
    sandbox_by_name,
    sandbox_status,
)
from tests.patience import HANG_SECONDS
from tests.unit.workspace import container_image

ROOT = Path(__file__).parents[3]
CONTAINERS = ("docker", "podman")
WALLS = (*CONTAINERS, "bubblewrap", "landlock")
RUNGS = (*WALLS, "limits")

# What runs inside: it enters, then forks one worker for each program, as a workspace does.
INSIDE = """
import json, os, sys
from pathlib import Path
told = json.loads(sys.argv[1])
sys.path[:] = told["path"]
from otolith.workspace.sandbox import ResourceLimits, SandboxSpec, sandbox_by_name
work = Path(told["work"])
if told["user"] is not None:
    import ctypes, sysconfig
    sysconfig.get_paths()  # now, because the other user may not be able to read it
    os.setgroups([])
    os.setresgid(*[told["user"]] * 3)
    os.setresuid(*[told["user"]] * 3)
spec = SandboxSpec(work, tuple(map(Path, told["readable"])), told["network"])
sandbox_by_name(told["name"]).enter(spec)

def attempt(program, limits):
    try:
        ResourceLimits(**limits).apply()
        exec(program, {"told": told, "work": work})
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return "done"

def outcome(program, limits):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, attempt(program, limits)[:4000].encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as said:
        text = said.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return text if code == 0 else f"ended with {code}"

print(json.dumps({name: outcome(*pair) for name, pair in told["programs"].items()}))
"""

# What attacks have at hand; `call` makes a system call by its number, past the C library.
TOOLS = """
import ctypes, glob, os, resource, signal, socket, subprocess, sys
outside, victim, marker = told["outside"], told["victim"], told["marker"][::-1]
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    if libc.syscall(*map(ctypes.c_long, (number, *arguments))) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
"""

# promise: {attack: program}; an attack that comes to its end has succeeded.
ATTACKS = {
    "write outside the work folder": {
        "append": "open(outside + '/canary', 'a').write('x')",
        "append through /proc": "open('/proc/self/root' + outside + '/canary', 'a').write('x')",
        "append by a link": "os.symlink(outside + '/canary', 'l1'); open('l1', 'a').write('x')",
        "append by a hard link": "os.link(outside + '/canary', 'l2'); open('l2', 'a').write('x')",
        "truncate": "os.truncate(outside + '/canary', 0)",
        "add": "open(outside + '/egg', 'x')",
        "move in": "os.rename(outside + '/canary', 'canary')",
        "delete": "os.unlink(outside + '/canary')",
        "set the kernel": "os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY)",
    },
    "read the user's files": {
        "read": "open(outside + '/secret').read()",
        "read through /proc": "open('/proc/self/root' + outside + '/secret').read()",
        "read by a link": "os.symlink(outside + '/secret', 'l3'); open('l3').read()",
        "list": "os.listdir(outside)",
        "list from the work folder": "assert os.path.basename(outside) in os.listdir('..')",
        "read the project": "open(told['project'] + '/pyproject.toml').read()",
        "read an environment": "assert 'HUSH' in open(f'/proc/{victim}/environ').read()",
    },
    "network": {
        "connect": "socket.create_connection(('127.0.0.1', told['port']), 5).close()",
        "make a datagram socket": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
        "talk to a daemon": "socket.socket(socket.AF_UNIX).connect(outside + '/daemon')",
        "talk to a nameless daemon": "socket.socket(socket.AF_UNIX).connect('\\0' + marker)",
    },
    "see other processes": {
        "read command lines": "seen = []\n"
        "for f in glob.glob('/proc/[0-9]*/cmdline'):\n"
        "    try: seen.append(open(f).read())\n"
        "    except (FileNotFoundError, ProcessLookupError): pass  # it has just ended\n"
        "assert any(marker in line for line in seen)",
    },
    "signal other processes": {
        "kill": "os.kill(victim, signal.SIGCONT)",
        "kill by descriptor": "signal.pidfd_send_signal(os.pidfd_open(victim), signal.SIGCONT)",
        "kill the parent": "os.kill(told['host'], 0)",
        "starve": "resource.prlimit(victim, resource.RLIMIT_NOFILE, (64, 64))",
    },
    "new privileges": {
        "let a program raise us": "assert 'NoNewPrivs:\\t0' in open('/proc/self/status').read()",
    },
    "change modes of files outside the work folder": {
        "chmod": "os.chmod(outside + '/locked', 0o777)",
    },
    "share memory with other processes": {
        "read shared memory": "open('/dev/shm/' + marker).read()",
    },
}

# What every rung with walls refuses with EPERM, whatever else it promises.
REFUSED = {
    "ptrace": "call({ptrace}, 16, victim, 0, 0)",
    "read memory": "call({process_vm_readv}, os.getpid(), 0, 0, 0, 0, 0)",
    "mount": "call({mount}, 0, 0, 0, 0, 0)",
    "unshare": "call({unshare}, 0x10000000)",
    "clone with a namespace": "call({clone}, 0x10000011, 0, 0, 0, 0)",
    "chroot": "os.chroot(work)",
    "io_uring": "call({io_uring_setup}, 1, 0)",
    "bpf": "call({bpf}, 0, 0, 0)",
    "userfaultfd": "call({userfaultfd}, 0)",
    "perf": "call({perf_event_open}, 0, 0, 0, 0, 0)",
    "keys": "call({keyctl}, 0, -3, 0)",
    "personality": "call({personality}, 0x40000)",
    "type into a terminal": "import fcntl; fcntl.ioctl(0, 0x5412, b'x')",
    "netlink": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "raise others by chmod": "open('s1', 'w'); os.chmod('s1', 0o4755)",
    "raise others by open": "os.open('s2', os.O_CREAT | os.O_WRONLY, 0o2755)",
    "raise others by a file without a name": "os.open('.', os.O_TMPFILE | os.O_WRONLY, 0o4755)",
    "vsock": "socket.socket(40, socket.SOCK_STREAM)",
}
_CAPABLE = "assert 'CapEff:\\t0000000000000000' not in open('/proc/self/status').read()"
PRIVILEGED = {
    "be capable": _CAPABLE,
    "be capable again": f"subprocess.run([sys.executable, '-c', {_CAPABLE!r}], check=True)",
    "become another user": "os.setresuid(12345, 12345, 12345)",
}
ODD = {"clone3": "call(435, 0, 0)", "x32": "call(0x40000000 + 39)"}
_NAME = f"otolith-{uuid.uuid4().hex}"
SACRED = [
    *(Path(folder, _NAME) for folder in (Path.home(), "/etc", "/usr/lib", "/tmp", ROOT)),
    *(Path(folder, _NAME) for folder in (sys.prefix, sys.base_prefix, Path(base.__file__).parent)),
]
CHANGED = [base.__file__, os.path.realpath(sys.executable), json.__file__]

ORDINARY_LIFE = {
    "write here": "open('note', 'w').write('x'); open(work / 'note', 'a').write('y')",
    "rename between folders": "import os\n"
    "os.mkdir('a'); os.mkdir('b'); open('a/f', 'w').close(); os.rename('a/f', 'b/f')",
    "work in the folder": "import os; assert os.getcwd() == str(work), os.getcwd()",
    "a temporary file": "import tempfile; tempfile.NamedTemporaryFile().write(b'x')",
    "throw away": "open('/dev/null', 'w').write('x'); open('/dev/urandom', 'rb').read(8)",
    "a thread": "import threading as t; x = t.Thread(target=print); x.daemon = True\n"
    "import sys; sys.stdout = sys.stderr; x.start(); x.join()",
    "a subprocess": "import subprocess as s, sys\n"
    "assert s.check_output([sys.executable, '-c', 'import json, ssl; print(7)']) == b'7\\n'",
    "a program of the system": "import os; assert os.system('/bin/true') == 0",
    "a lock between processes": "import multiprocessing as m; m.Lock().acquire()",
    "an event loop": "import asyncio; asyncio.run(asyncio.sleep(0))",
    "an import": "import sqlite3, msgspec, ssl; ssl.create_default_context()",
    "a module of ours": "import otolith.cli",
    "dirty pages": "assert len(open('/proc/self/pagemap', 'rb').read(8)) == 8",
    "a time zone": "import zoneinfo; zoneinfo.ZoneInfo('Europe/Vienna')",
}


SPENDING = {
    "much memory": (ResourceLimits(memory_bytes=64 << 20), "bytearray(256 << 20)", "MemoryError"),
    "some memory": (ResourceLimits(memory_bytes=64 << 20), "bytearray(16 << 20)", "done"),
    "time": (ResourceLimits(cpu_seconds=1), "while True: pass", "ended with -24"),
    "a long file": (
        ResourceLimits(file_bytes=9),
        "work.joinpath('f').write_bytes(bytes(10))",
        "OSError",
    ),
    "a short file": (
        ResourceLimits(file_bytes=9),
        "work.joinpath('g').write_bytes(bytes(9))",
        "done",
    ),
    "many files": (
        ResourceLimits(open_files=8),
        "x = [open('/dev/null') for _ in 'x' * 9]",
        "OSError",
    ),
    "core": (
        ResourceLimits(),
        "import resource as r; assert r.getrlimit(r.RLIMIT_CORE) == (0, 0)",
        "done",
    ),
}


def _rung(name):
    reason = dict(sandbox_status())[name]
    if reason is not None:
        pytest.skip(f"{name} does not work here: {reason}")
    if name not in CONTAINERS:
        yield choose_sandbox(name)
        return
    try:
        yield choose_sandbox(name, image=container_image.image(name))
    except (OSError, subprocess.CalledProcessError, Unsupported) as error:
        pytest.skip(f"{name} runs no container here: {error}")
    finally:
        container_image.remove(name)


@pytest.fixture(scope="module", params=RUNGS)
def rung(request):
    yield from _rung(request.param)


@pytest.fixture(scope="module", params=WALLS)
def walls(request):
    yield from _rung(request.param)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Return what there is to attack, besides the work folder: files, sockets, a process."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret").write_text("hush")
    marker = f"otolith-{uuid.uuid4().hex}"
    shared = Path("/dev/shm", marker)
    shared.write_text("hush")
    sleep = [sys.executable, "-c", "input()", marker]
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as daemon,
        socket.socket(socket.AF_UNIX) as abstract,
        subprocess.Popen(sleep, stdin=subprocess.PIPE, env={"HUSH": "hush"}) as victim,
    ):
        daemon.bind(str(outside / "daemon"))
        daemon.listen()
        abstract.bind("\0" + marker)
        abstract.listen()
        yield {
            "outside": str(outside),
            "project": str(ROOT),
            "port": server.getsockname()[1],
            "marker": marker[::-1],  # else it would be on the command line of the sandbox as well
            "victim": victim.pid,
            "host": os.getpid(),
        }
        victim.kill()
    shared.unlink()


@pytest.fixture(scope="module")
def siege(world, tmp_path_factory):
    """Return the outcomes of every attack on a rung, made once."""
    done = {}

    def of(sandbox):
        if sandbox.name not in done:
            outside = Path(world["outside"])
            (outside / "canary").write_text("sings")
            (outside / "locked").touch()
            (outside / "locked").chmod(0o600)
            outcomes = run(sandbox, tmp_path_factory.mktemp("work"), attacks(sandbox), **world)
            done[sandbox.name] = outcomes | {
                "after: egg": (outside / "egg").exists(),
                "after: canary": (outside / "canary").exists() and (outside / "canary").read_text(),
                "after: locked": (outside / "locked").stat().st_mode & 0o777,
            }
            (outside / "egg").unlink(missing_ok=True)
        return done[sandbox.name]

    return of


def attacks(sandbox):
    programs = {name: text for attack in ATTACKS.values() for name, text in attack.items()}
    if sandbox.name in WALLS:
        names = [*kernel.REFUSED, *kernel.OTHERS]
        numbers = {name: kernel.number(name, kernel.machine() or "x86_64") for name in names}
        programs |= {name: program.format(**numbers) for name, program in REFUSED.items()}
        programs |= {str(path): f"open({str(path)!r}, 'x')" for path in SACRED}
        programs |= {path: f"open({path!r}, 'r+b')" for path in CHANGED}
        programs |= PRIVILEGED | ODD
    return {name: TOOLS + program for name, program in programs.items()}


def start(sandbox, work, programs, *, environment=None, keep_fds=(), **told):
    """Start the programs in a sandbox; its standard output will be their outcomes."""
    usual: dict[str, Any] = {"readable": (), "network": False, "user": None}
    told = usual | told
    pairs = {name: (p if isinstance(p, tuple) else (p, {})) for name, p in programs.items()}
    told |= {"name": sandbox.name, "work": str(work), "path": sys.path, "programs": pairs}
    place = SandboxSpec(work, tuple(Path(each) for each in told["readable"]), bool(told["network"]))
    argv = [sys.executable, "-I", "-c", INSIDE, json.dumps(told)]
    environment = environment or {}
    return subprocess.Popen(
        sandbox.command(argv, place, environment=environment, keep_fds=keep_fds),
        env=environment,
        pass_fds=keep_fds,
        cwd=work,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def run(sandbox, work, programs, **told):
    with start(sandbox, work, programs, **told) as process:
        out, err = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 0, err.decode()
    return json.loads(out)


@pytest.mark.parametrize("promise", ATTACKS)
def test_a_rung_stops_what_it_promises_and_promises_no_more(rung, siege, promise):
    outcomes = {attack: siege(rung)[attack] for attack in ATTACKS[promise]}

    assert rung.stops[promise] == ("done" not in outcomes.values()), outcomes


def test_the_attacks_cover_every_promise(rung):
    assert set(rung.stops) == set(ATTACKS)


def test_what_lies_outside_is_as_it_was(walls, siege):
    outcomes = siege(walls)

    assert outcomes["after: canary"] == "sings"
    assert not outcomes["after: egg"]
    if walls.stops["change modes of files outside the work folder"]:
        assert outcomes["after: locked"] == 0o600


def test_nothing_is_written_into_the_home_the_system_or_the_project(walls, siege):
    siege(walls)

    assert [target for target in SACRED if target.exists()] == []


def test_the_interpreter_and_the_package_cannot_be_changed(walls, siege):
    assert "done" not in {siege(walls)[path] for path in CHANGED}


@pytest.mark.parametrize("attack", REFUSED)
def test_a_system_call_that_leads_out_is_refused(walls, siege, attack):
    assert siege(walls)[attack].startswith("PermissionError: [Errno 1]")


def test_clone3_is_said_to_be_missing_so_that_threads_fall_back(walls, siege):
    assert siege(walls)["clone3"] == "OSError: [Errno 38] Function not implemented"


@pytest.mark.skipif(kernel.machine() != "x86_64", reason="x32 is a second ABI of x86_64 only")
def test_a_call_of_a_foreign_abi_ends_the_process(walls, siege):
    assert siege(walls)["x32"] == "ended with -31"


def test_no_capability_is_left_and_none_comes_back(walls, siege):
    assert "done" not in {siege(walls)[attack] for attack in PRIVILEGED}


def test_ordinary_life_goes_on(rung, tmp_path):
    environment = {"PATH": "/usr/bin:/bin"}

    outcomes = run(rung, tmp_path, ORDINARY_LIFE, environment=environment)

    assert {name: text for name, text in outcomes.items() if text != "done"} == {}


def test_what_is_readable_can_be_read_and_not_written(walls, tmp_path):
    work, given = tmp_path / "work", tmp_path / "given"
    work.mkdir()
    given.mkdir()
    (given / "data").write_text("1")
    (work / "link").symlink_to(given)
    programs = {
        "read": f"assert open('{given}/data').read() == '1'",
        "follow": "assert open('link/data').read() == '1'",
        "write": f"open('{given}/data', 'w')",
        "add": f"open('{given}/more', 'w')",
    }

    outcomes = run(walls, work, programs, readable=[str(given)])

    assert [name for name, text in outcomes.items() if text == "done"] == ["read", "follow"]


def test_a_network_that_was_asked_for_is_there_and_is_not_promised_away(rung, world, tmp_path):
    if rung.name in CONTAINERS:
        pytest.skip("the listener is on the loopback of the host, which a container does not share")
    online = choose_sandbox(rung.name, network=True)
    programs = {name: TOOLS + program for name, program in ATTACKS["network"].items()}

    outcomes = run(online, tmp_path, programs, **world, network=True)

    assert outcomes["connect"] == "done"
    assert not online.stops["network"]
    if rung.name != "limits":
        assert outcomes["talk to a daemon"] != "done"
        assert outcomes["talk to a nameless daemon"] != "done"


def test_a_place_with_a_network_is_refused_by_a_sandbox_without_one(walls, tmp_path):
    with pytest.raises(Invalid, match="without a network"):
        walls.command(["true"], SandboxSpec(tmp_path, network=True), environment={}, keep_fds=())


def test_a_socket_that_was_inherited_works_inside(rung, tmp_path):
    ours, theirs = socket.socketpair()
    fd = theirs.fileno()
    talk = f"import socket; s = socket.socket(fileno={fd}); s.sendall(s.recv(99)[::-1])"
    with ours, theirs:
        process = start(rung, tmp_path, {"talk": talk}, keep_fds=[fd])
        ours.settimeout(HANG_SECONDS)
        ours.sendall(b"tell me")
        assert ours.recv(99) == b"em llet"
        with process:
            process.communicate(timeout=HANG_SECONDS)


def test_nobody_else_holds_a_socket_that_was_inherited(rung, tmp_path):
    (ours, theirs), (more, others) = socket.socketpair(), socket.socketpair()
    fds = [others.fileno(), theirs.fileno()]  # not in order: each keeps its number all the same
    program = f"import os; os.close({fds[1]}); os.read({fds[0]}, 1); raise SystemExit(7)"
    argv = [sys.executable, "-I", "-c", program]
    command = rung.command(argv, SandboxSpec(tmp_path), environment={}, keep_fds=fds)
    with ours, more, subprocess.Popen(command, env={}, pass_fds=fds, cwd=tmp_path) as process:
        theirs.close()
        others.close()
        ours.settimeout(HANG_SECONDS)
        assert ours.recv(1) == b""
        more.sendall(b"x")
        assert process.wait(HANG_SECONDS) == 7


def test_all_that_runs_inside_ends_with_the_process_that_was_started(walls, tmp_path):
    if walls.name == "landlock":
        pytest.skip("landlock makes no namespace: whoever started it ends the process group")
    ours, theirs = socket.socketpair()
    fd = theirs.fileno()
    stay = f"import os, signal; os.setsid(); os.write({fd}, b'up'); signal.pause()"
    with ours:
        process = start(walls, tmp_path, {"stay": stay}, keep_fds=[fd])
        theirs.close()
        ours.settimeout(HANG_SECONDS)
        assert ours.recv(2) == b"up"
        process.kill()
        with process:
            assert ours.recv(2) == b"", "nobody inside holds the other end any more"


def test_a_program_gets_the_environment_it_is_given(rung, tmp_path, monkeypatch):
    monkeypatch.setenv("OTOLITH_HUSH", "hush")
    program = "import os; assert os.environ['GIVEN'] == 'a b' and 'OTOLITH_HUSH' not in os.environ"

    outcomes = run(rung, tmp_path, {"look": program}, environment={"GIVEN": "a b"})

    assert outcomes == {"look": "done"}


def test_the_environment_of_the_host_is_nowhere_inside(walls, tmp_path):
    if walls.name == "landlock":
        pytest.skip("landlock wraps no program: the environment is what it is started with")
    look = """
import glob
for name in glob.glob("/proc/[0-9]*/environ"):
    try:
        print(open(name).read())
    except PermissionError:
        pass
"""
    argv = [sys.executable, "-I", "-c", look]
    command = walls.command(argv, SandboxSpec(tmp_path), environment={"GIVEN": "1"}, keep_fds=())

    said = subprocess.check_output(command, env=os.environ | {"HUSH": "hush"}, timeout=HANG_SECONDS)

    assert b"GIVEN=1" in said
    assert b"HUSH" not in said


def test_a_limit_holds_in_every_rung(rung, tmp_path):
    programs = {n: (text, dataclasses.asdict(most)) for n, (most, text, _) in SPENDING.items()}

    outcomes = run(rung, tmp_path, programs)

    assert {n: text.partition(":")[0] for n, text in outcomes.items()} == {
        name: expected for name, (_, _, expected) in SPENDING.items()
    }


def test_a_worker_cannot_lift_its_limits(walls, tmp_path):
    lift = "import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (8192, 8192))"

    outcomes = run(walls, tmp_path, {"lift": (lift, {"file_bytes": 4096})})

    assert outcomes["lift"].startswith("ValueError")


BOMB = """
import os, signal
born = []
try:
    while len(born) < 50:
        pid = os.fork()
        if pid == 0:
            signal.pause()
        born.append(pid)
except BlockingIOError:
    pass
for pid in born:
    os.kill(pid, signal.SIGKILL)
raise SystemExit(len(born))
"""


@pytest.mark.parametrize("name", ["bubblewrap", "landlock", "limits"])
def test_a_fork_bomb_stops_at_the_limit(name, tmp_path_factory):
    """As another user if need be, because the kernel does not count the processes of root."""
    (sandbox,) = _rung(name)
    if name == "bubblewrap" and os.getuid() == 0:
        pytest.skip("inside there is no other user than the one who started it, and that is root")
    work = Path("/tmp") if os.getuid() == 0 else tmp_path_factory.mktemp("work")
    user = 65534 if os.getuid() == 0 else None

    outcomes = run(sandbox, work, {"bomb": (BOMB, {"processes": 5})}, user=user)

    assert outcomes["bomb"] == "SystemExit: 5"


def test_a_limit_that_the_kernel_does_not_hold_is_said_to_be_ignored():
    asked = ResourceLimits(processes=5, memory_bytes=1 << 30, cpu_seconds=1)

    assert asked.ignored() == (("processes",) if os.getuid() == 0 else ())
    assert ResourceLimits().ignored() == ()


def test_auto_takes_the_best_rung_that_works():
    works = [name for name, reason in sandbox_status() if reason is None and name not in CONTAINERS]

    assert choose_sandbox().name == works[0]
    assert choose_sandbox().name != "limits" or dict(sandbox_status())["bubblewrap"] is not None


def test_the_ladder_names_every_rung_best_first():
    assert tuple(name for name, _ in sandbox_status()) == RUNGS


def test_a_rung_that_is_asked_for_and_missing_is_an_error_with_a_next_move(tmp_path):
    """In an interpreter of its own, which finds no programs and has not tried any rung yet."""
    program = """
import sys
from otolith.workspace.sandbox import choose_sandbox
from otolith.errors import Unsupported
for name in ("bubblewrap", "docker", "podman"):
    try:
        choose_sandbox(name, image="any")
    except Unsupported as error:
        print(name, "|", error.message, "|", error.hint)
print(choose_sandbox().name)
"""
    said = subprocess.run(
        [sys.executable, "-c", program],
        env={"PATH": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG_SECONDS,
    ).stdout.splitlines()

    assert said[0].startswith(
        "bubblewrap | the bubblewrap sandbox does not work here: bwrap is not"
    )
    assert "apt-get install bubblewrap" in said[0]
    assert "docker is not installed" in said[1]
    assert "install podman" in said[2]
    assert said[3] in {"landlock", "limits"}


def test_a_rung_that_is_there_and_broken_says_what_it_said(tmp_path):
    broken = tmp_path / "bwrap"
    broken.write_text(
        "#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2; exit 1\n"
    )
    broken.chmod(0o755)
    program = "from otolith.workspace import sandbox_status\n"
    program += "print(dict(sandbox_status())['bubblewrap'])"

    said = subprocess.run(
        [sys.executable, "-c", program],
        env={"PATH": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG_SECONDS,
    ).stdout.strip()

    assert said == "bwrap: setting up uid map: Permission denied"


def test_an_unknown_rung_is_invalid():
    for ask in (choose_sandbox, sandbox_by_name):
        with pytest.raises(Invalid, match="there is no sandbox 'jail'"):
            ask("jail")


def test_a_container_without_an_image_is_not_run(tmp_path):
    with pytest.raises(Invalid, match="needs an image"):
        sandbox_by_name("docker").command(
            ["true"], SandboxSpec(tmp_path), environment={}, keep_fds=()
        )
    with pytest.raises((Invalid, Unsupported)):
        choose_sandbox("docker")


@pytest.mark.parametrize("path", [Path("here"), Path("/")])
def test_a_place_is_absolute_and_smaller_than_the_machine(path, tmp_path):
    for place in ({"work": path}, {"work": tmp_path, "readable": (path,)}):
        with pytest.raises(Invalid):
            SandboxSpec(**place)


def test_a_place_has_to_be_there(rung, tmp_path):
    with pytest.raises(Invalid, match="there is no folder"):
        rung.command(["true"], SandboxSpec(tmp_path / "gone"), environment={}, keep_fds=())


def test_on_another_system_only_limits_are_left():
    program = """
import os, shutil, subprocess, sys, sysconfig, tempfile, otolith.session
sys.platform = "darwin"
from otolith.workspace.sandbox import ResourceLimits, choose_sandbox, sandbox_status
limits = ResourceLimits(processes=5, memory_bytes=9, cpu_seconds=9)
print(choose_sandbox().name, [name for name, reason in sandbox_status() if reason is None])
print(any(choose_sandbox().stops.values()), limits.ignored())
"""
    assert subprocess.check_output([sys.executable, "-c", program], text=True).splitlines() == [
        "limits ['limits']",
        "False ('memory_bytes', 'processes')",
    ]


def test_where_there_are_no_limits_there_is_no_sandbox():
    program = """
import sys
sys.platform, sys.modules["resource"] = "win32", None
from otolith.workspace.sandbox import ResourceLimits, choose_sandbox
from otolith.errors import Unsupported
for attempt in (choose_sandbox, ResourceLimits().apply):
    try:
        attempt()
    except Unsupported as error:
        print(error.message)
"""
    program = "import os, shutil, subprocess, sysconfig, tempfile, otolith.session" + program

    assert subprocess.check_output([sys.executable, "-c", program], text=True).splitlines() == [
        "no sandbox works here",
        "this system has no resource limits",
    ]


def test_a_link_is_shown_hop_by_hop(tmp_path):
    real = tmp_path / "real" / "python"
    real.parent.mkdir()
    real.touch()
    (tmp_path / "hop").symlink_to("real/python")
    (tmp_path / "first").symlink_to("hop")

    assert base.minimal_cover([tmp_path / "first"]) == [tmp_path / "first", tmp_path / "hop", real]


def test_nothing_shown_to_an_interpreter_shows_the_home_or_the_project():
    shown = [*base.system_files(network=True), *base.interpreter_files()]

    assert not any(Path.home().is_relative_to(path) or ROOT.is_relative_to(path) for path in shown)


def test_numbers_of_system_calls_are_those_of_the_kernel_headers():
    header = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
    if not header.exists():
        pytest.skip("the kernel headers are not installed")
    defined = dict(
        line.removeprefix("#define __NR_").split()
        for line in header.read_text().splitlines()
        if line.startswith("#define __NR_")
    )
    ours = kernel.REFUSED | kernel.OTHERS

    assert {n: x86 for n, (x86, _) in ours.items() if n in defined and int(defined[n]) != x86} == {}


def test_looking_for_a_sandbox_does_not_load_ctypes():
    program = (
        "import sys; before = 'ctypes' in sys.modules\n"
        "import otolith.session; loaded = 'ctypes' in sys.modules\n"
        "import otolith.workspace.sandbox; print(loaded == ('ctypes' in sys.modules))"
    )

    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "True\n"
