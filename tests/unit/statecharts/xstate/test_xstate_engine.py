"""Random machines move as they do in XState: states, status, data, and the order of actions."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from tests.unit.statecharts.xstate.engines import (
    RECORDED,
    XSTATE_VERSION,
    installed_xstate,
    play,
    play_in_node,
)
from tests.unit.statecharts.xstate.machines import draw_machine, draw_script, fingerprint

_ALL = json.loads(RECORDED.read_text("utf-8"))
_BLOCK = 500
_STEPS = 100


def test_the_records_are_of_the_pinned_xstate():
    assert _ALL["xstate"] == XSTATE_VERSION
    assert len(_ALL["records"]) == 60


@pytest.mark.parametrize("row", _ALL["records"], ids=lambda row: f"machine {row['seed']}")
def test_a_random_machine_moves_as_xstate_did(row):
    machine, script = draw_machine(row["seed"]), draw_script(row["seed"], _ALL["steps"])
    assert fingerprint(machine, script) == row["print"], (
        "the machines changed: python3 -m tests.unit.statecharts.xstate"
    )

    assert play(machine, script) == row["record"]


@pytest.mark.long
@pytest.mark.parametrize(
    "first", range(0, 8 * _BLOCK, _BLOCK), ids=lambda n: f"{_BLOCK} from {n}, {_STEPS} steps each"
)
def test_random_machines_move_as_xstate_does(first, record_property):
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("node and npm are not installed")
    try:
        installed_xstate()
    except subprocess.CalledProcessError as error:
        pytest.skip(f"npm cannot install XState: {error.stderr.decode()[-200:]}")
    seeds = range(first, first + _BLOCK)
    plays = [(draw_machine(seed), draw_script(seed, _STEPS)) for seed in seeds]

    records = list(play_in_node(plays))

    assert len(records) == _BLOCK
    record_property("machines", len(records))
    record_property("moments", sum(map(len, records)))
    differing = [
        seed
        for seed, drawn, record in zip(seeds, plays, records, strict=True)
        if play(*drawn) != record
    ]
    assert differing == []
