"""Sandboxes around workers, from a container down to resource limits only.

choose_sandbox    the best sandbox that works here, or the named one; never silently none
sandbox_by_name   a sandbox that is not tried: for the program that runs inside and enters it
sandbox_status    every sandbox, and why it does not work here if it does not
Sandbox           the command that starts a program in it, and what it stops, as data
SandboxSpec       what a worker may see: its folder, what it may read, whether there is a network
ResourceLimits    how much one worker may use: memory, time, files, processes
path_inside       a path as it can be used inside, without `..`
descendants       the processes below one; `end_descendants` ends them
identify          which process has a number now; `end_processes` waits for its end, then ends it

How it is used: the host starts `sandbox.command(argv, ...)` with `env=environment` and
`pass_fds=keep_fds`; that program calls `sandbox_by_name(name).enter(spec)` before it starts a
thread or runs a line of a user's code; then it forks workers, and each applies its limits.

Start it from a thread that lives as long as the sandbox shall: bubblewrap dies with the *thread*
that started it, because that is what the kernel calls a parent.

Read `base.py` for the promises and the files that are shown, then a sandbox: `bubblewrap.py`,
`landlock.py`, `container.py`, `limits.py`. `kernel.py` has the system calls that are refused, and
`processes.py` how everything that was started is ended.
"""

from otolith.workspace.sandbox.base import Sandbox, SandboxSpec, path_inside
from otolith.workspace.sandbox.choose import (
    choose_sandbox,
    failure_reason,
    sandbox_by_name,
    sandbox_status,
)
from otolith.workspace.sandbox.limits import ResourceLimits
from otolith.workspace.sandbox.processes import (
    ProcessId,
    descendants,
    end_descendants,
    end_processes,
    identify,
)

__all__ = [
    "ProcessId",
    "ResourceLimits",
    "Sandbox",
    "SandboxSpec",
    "choose_sandbox",
    "descendants",
    "end_descendants",
    "end_processes",
    "failure_reason",
    "identify",
    "path_inside",
    "sandbox_by_name",
    "sandbox_status",
]
