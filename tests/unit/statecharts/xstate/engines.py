"""The two engines: a machine and a script in, the same kind of record out."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from otolith.errors import StepFailed
from otolith.statecharts import Chart, ChartEvent, ChartSnapshot, StepResult
from tests.unit.statecharts.xstate.machines import GUARDS, Config, ScriptStep

XSTATE_VERSION = "5.33.3"
_HERE = Path(__file__).parent
RECORDED = _HERE / "recorded.json"
_CACHE = _HERE.parents[3] / ".cache" / f"xstate-{XSTATE_VERSION}"

Moment = str | list[Any]
"""The active leaves, the status, the counter and the actions of one step; or `endless`."""
Record = list[Moment]


# ---------------------------------------------------------------- ours


def play(config: Config, script: Iterable[ScriptStep]) -> Record:
    """Return what our engine makes of a script."""
    chart = Chart.from_data(_with_raises(config))
    truth = dict.fromkeys(GUARDS, False)
    for name in GUARDS:
        chart.guard(name)(lambda data, event, name=name: truth[name])
    for n in range(3):
        chart.guard(f"n={n}")(lambda data, event, n=n: data["n"] == n)
    chart.action("count")(lambda data, event: {"n": (data["n"] + 1) % 3})
    chart.is_strict = False
    record: Record = []
    try:
        result = chart.start()
        record.append(_moment(result))
        for item in script:
            if result.snapshot.status != "running":
                break
            truth.update(item["truth"])
            result = _step(chart, result.snapshot, item)
            record.append(_moment(result))
    except StepFailed as error:
        if not error.cycle:
            raise
        record.append("endless")
    return record


def _step(chart: Chart, snapshot: ChartSnapshot, item: ScriptStep) -> StepResult:
    if "wait" in item:
        return chart.advance(snapshot, snapshot.time + item["wait"] * 1_000)
    if "event" in item:
        return chart.step(snapshot, item["event"])
    kind = "done" if "done" in item else "fail"
    id = item[kind]
    if all(child.id != id for child in snapshot.children):
        return StepResult(snapshot, (), ())
    name = f"{'done' if kind == 'done' else 'error'}.invoke.{id}"
    return chart.step(snapshot, ChartEvent(name, None, invokeid=id))


def _moment(result: StepResult) -> Moment:
    snapshot = result.snapshot
    actions = [effect.name for effect in result.effects if effect.kind == "call"]
    return [list(snapshot.configuration), snapshot.status, snapshot.data["n"], actions]


def _with_raises(config: Any) -> Any:
    """Return a config with `raise:a`, which names an action in node, as the action itself."""
    if isinstance(config, dict):
        return {key: _with_raises(value) for key, value in config.items()}
    if isinstance(config, list):
        return [_with_raises(value) for value in config]
    if isinstance(config, str) and config.startswith("raise:"):
        return {"type": "xstate.raise", "event": config.removeprefix("raise:")}
    return config


# ---------------------------------------------------------------- theirs


def installed_xstate() -> Path:
    """Return the folder of the pinned XState; install it there if that was not done yet."""
    if not (_CACHE / "node_modules" / "xstate").is_dir():
        _CACHE.mkdir(parents=True, exist_ok=True)
        package = f"xstate@{XSTATE_VERSION}"
        arguments = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(_CACHE), package]
        subprocess.run(arguments, check=True, capture_output=True)
    return _CACHE


def play_in_node(plays: Iterable[tuple[Config, list[ScriptStep]]]) -> Iterator[Record]:
    """Yield what XState makes of machines and their scripts."""
    lines = [json.dumps({"config": config, "script": script}) for config, script in plays]
    done = subprocess.run(
        ["node", str(_HERE / "driver.mjs"), str(installed_xstate())],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    yield from map(json.loads, done.stdout.splitlines())
