"""Work on a state that can be profiled: our commits alone, changes made between them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from typing import Any

from bench.ground import Ground
from bench.state import frames, lists, values
from bench.state.contest import Work
from bench.state.holders.ours import Ours
from bench.timing import Step


def _scene(fill: Callable[[Ground], dict[str, Any]], work: Callable[[Ground], Work], times: int):
    def scene(ground: Ground, stack: ExitStack) -> tuple[Step, int]:
        place = ground.place("profile")
        place.mkdir()
        holder = Ours(place)
        stack.callback(holder.close)
        for key, value in fill(ground).items():
            holder.set(key, value)
        holder.commit()
        holder.reopen()
        change, steps = work(ground), count()

        def step() -> None:
            change(holder, next(steps) % times)
            holder.commit()

        return step, times

    return scene


def _frame(ground: Ground) -> dict[str, Any]:
    return {"df": frames.frame(ground.sizes.frame_rows, ground.sizes.frame_columns)}


SCENES = {
    "frame-assign": _scene(_frame, lambda g: frames.changing(frames.assign, 5), 25),
    "frame-place": _scene(_frame, lambda g: frames.changing(frames.in_place, 5), 25),
    "frame-reopen": _scene(_frame, lambda g: frames.changing(frames.assign, 5, reopens=True), 10),
    "read": _scene(_frame, lambda g: frames.reading, 100),
    "values-one": _scene(
        lambda g: values.large(g.sizes.held_values),
        lambda g: values.renewing(g.sizes.held_values, 200, reads_all=False),
        200,
    ),
    "values-all": _scene(
        lambda g: values.large(g.sizes.held_values),
        lambda g: values.renewing(g.sizes.held_values, 200, reads_all=True),
        200,
    ),
    "list": _scene(
        lambda g: {"log": lists.entries(g.sizes.listed_dicts)},
        lambda g: lists.appending(g.sizes.listed_dicts),
        200,
    ),
    "small": _scene(
        lambda g: values.small(g.sizes.held_values),
        lambda g: values.touching(g.sizes.held_values),
        500,
    ),
}
