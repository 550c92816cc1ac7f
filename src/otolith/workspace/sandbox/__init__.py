"""Walls around a worker: a ladder of sandboxes, from a container down to bare limits.

below      the processes that descend from one; `end_below` ends them
by_name    a rung by its name, unproven: for the program that runs inside and has to `enter` it
identify   which process a number means now; `end_processes` waits for its end, then ends it
choose     the best rung that works here, or the one that is asked for; never silently none
ladder     every rung, and why it does not work here if it does not
Limits     what one worker may use up: memory, time, files, processes
plain_path a path as it can be used inside, without `..`
Place      what a worker may see: its folder, what it may read, whether there is a network
Sandbox    a rung: the command that starts a program in it, and what it stops, as data

How it is used: the host starts `sandbox.command(argv, ...)` with `env=environment` and
`pass_fds=keep_fds`; that program calls `by_name(name).enter(place)` before it starts a thread or
reads a line of anybody's code; then it forks workers, and each calls `limits.apply()`.

Start it from a thread that lives as long as the sandbox shall: bubblewrap dies with the *thread*
that started it, because that is what the kernel calls a parent.

Read `base.py` for the promises, then a rung: `bubblewrap.py`, `landlock.py`, `container.py`,
`landlock.py`. What the rungs share is in `bubblewrap.py` (what an interpreter must see),
`seccomp.py` (which system calls are refused), `limits.py` (what one worker may use up) and
`processes.py` (how everything that was started is ended).
"""

from otolith.workspace.sandbox.base import Place, Sandbox
from otolith.workspace.sandbox.bubblewrap import plain_path
from otolith.workspace.sandbox.choose import by_name, choose, ladder, why_not
from otolith.workspace.sandbox.limits import Limits
from otolith.workspace.sandbox.processes import (
    ProcessId,
    below,
    end_below,
    end_processes,
    identify,
)

__all__ = [
    "Limits",
    "Place",
    "ProcessId",
    "Sandbox",
    "below",
    "by_name",
    "choose",
    "end_below",
    "end_processes",
    "identify",
    "ladder",
    "plain_path",
    "why_not",
]
