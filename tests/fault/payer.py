"""A process that carries out what waits on one branch, beside others, until it is killed or done.

python payer.py STORE EFFECTS BRANCH HOW

Each payment appends its key to EFFECTS, as one write. What is unknown after a kill is left if HOW
is "leave"; if it is "settle", it is settled by looking there, as a person would.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from otolith import Disk, Versioned
from otolith.errors import Busy, Conflict, KeyNotFound
from otolith.statecharts import Chart, Effect, Machine

PAYMENTS = 10
COUNTER = {
    "id": "payments",
    "initial": "open",
    "context": {"count": 0},
    "states": {"open": {"on": {"pay": {"actions": ["count", "pay"]}}}},
}


def chart_for(effects: Path) -> Chart:
    """Return the chart whose payments go to a file."""
    chart = Chart.from_data(COUNTER)

    @chart.action
    def count(data: dict[str, int], event: object) -> dict[str, int]:
        return {"count": data["count"] + 1}

    @chart.effect(is_repeatable=False)
    def pay(effect: Effect) -> None:
        file = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{effect.key}\n".encode())
        os.close(file)

    return chart


def main(store: str, effects: str, branch: str, how: str) -> None:
    """Pay everything that waits."""
    place = Path(effects)
    with Versioned(Disk(store), branch=branch) as state:
        machine = state.lifecycle(chart_for(place))
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while machine.outbox():
            unknown = machine.carry_out(limit=1).unknown
            if how == "settle":
                settle(machine, [effect.key for effect in unknown], place)
            state.refresh()
    sys.stdout.write("done\n")


def settle(machine: Machine, keys: list[str], place: Path) -> None:
    """Look which payments have happened, and say so."""
    paid = place.read_text().split() if place.exists() else []
    for key in keys:
        with suppress(Busy, Conflict, KeyNotFound):  # another process was faster
            machine.settle(key, happened=key in paid)


if __name__ == "__main__":
    main(*sys.argv[1:])
