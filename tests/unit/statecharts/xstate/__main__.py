"""Makes `recorded.json` again: what XState makes of the first machines that move for a while."""

from __future__ import annotations

import json

from tests.unit.statecharts.xstate.engines import RECORDED, XSTATE_VERSION, play_in_node
from tests.unit.statecharts.xstate.machines import draw_machine, draw_script, fingerprint

MACHINES = 60
STEPS = 20
_SEEDS = range(200)


def main() -> None:
    plays = [(draw_machine(seed), draw_script(seed, STEPS)) for seed in _SEEDS]
    records = dict(zip(_SEEDS, play_in_node(plays), strict=True))
    lively = [seed for seed, record in records.items() if len(record) > STEPS // 2][:MACHINES]
    rows = [
        json.dumps({"seed": seed, "print": fingerprint(*plays[seed]), "record": records[seed]})
        for seed in lively
    ]
    head = f'{{"xstate": "{XSTATE_VERSION}", "steps": {STEPS}, "records": [\n'
    RECORDED.write_text(head + ",\n".join(rows) + "\n]}\n", encoding="utf-8")
    print(f"{len(rows)} machines, {sum(len(records[seed]) - 1 for seed in lively)} steps")


if __name__ == "__main__":
    main()
