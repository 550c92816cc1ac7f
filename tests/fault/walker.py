"""A process that drives a machine whose effects go to a file, until it is killed or done.

python walker.py STORE EFFECTS HOW

Each effect appends its name and key to EFFECTS, as one write. HOW is "again" for effects that may
be repeated and "once" for those that may not.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from otolith import Disk, Versioned
from otolith.statecharts import Chart, Effect

ROUNDS = 12

WALK = {
    "id": "walk",
    "initial": "ready",
    "context": {"round": 0},
    "states": {
        "ready": {"on": {"go": {"target": "working", "actions": ["count", "announce"]}}},
        "working": {
            "invoke": {"id": "work", "src": "work", "onDone": "ready", "onError": "ready"},
            "exit": ["leave"],
        },
    },
}


def chart_for(effects: str, *, may_repeat: bool) -> Chart:
    chart = Chart.from_data(WALK)

    @chart.action
    def count(data: dict[str, int], event: object) -> dict[str, int]:
        return {"round": data["round"] + 1}

    def write(effect: Effect) -> dict[str, str]:
        file = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{effect.name} {effect.key}\n".encode())
        os.close(file)
        return {"key": effect.key}

    for name in ("announce", "work", "leave"):
        chart.effect(name=name, is_repeatable=may_repeat)(write)
    return chart


def main(store: str, effects: str, how: str) -> None:
    """Walk."""
    chart = chart_for(effects, may_repeat=how == "again")
    with Versioned(Disk(store)) as state:
        machine = state.lifecycle(chart)
        state.commit("begin", allow_empty=True)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            carried = machine.carry_out()
            for effect in carried.unknown:
                machine.settle(effect.key, happened=_happened(effects, effect.key))
            if carried.unknown:
                continue
            if machine.data["round"] == ROUNDS:
                break
            machine.send("go")
            state.commit("go")
            sys.stdout.write("went\n")
            sys.stdout.flush()
    sys.stdout.write("done\n")


def _happened(effects: str, key: str) -> bool:
    return any(line.split()[1] == key for line in Path(effects).read_text().splitlines())


if __name__ == "__main__":
    main(*sys.argv[1:])
