"""The phases of an agent, as a built-in chart.

    idle -> planning -> executing -> reflecting -> done

From reflecting it goes back to planning when the plan did not work, from executing to
waiting_feedback when a person is asked, and from anywhere to error.
"""

from __future__ import annotations

from enum import StrEnum

from otolith.statecharts.chart import Chart


class Phase(StrEnum):
    """What an agent is doing."""

    IDLE = "idle"
    PLANNING = "planning"
    EXECUTING = "executing"
    WAITING_FEEDBACK = "waiting_feedback"
    REFLECTING = "reflecting"
    DONE = "done"
    ERROR = "error"


AGENT = Chart.from_table(
    {
        (Phase.IDLE, "new_task"): Phase.PLANNING,
        (Phase.PLANNING, "plan_ready"): Phase.EXECUTING,
        (Phase.EXECUTING, "step_complete"): Phase.EXECUTING,
        (Phase.EXECUTING, "needs_input"): Phase.WAITING_FEEDBACK,
        (Phase.WAITING_FEEDBACK, "input_received"): Phase.EXECUTING,
        (Phase.EXECUTING, "observe"): Phase.REFLECTING,
        (Phase.EXECUTING, "task_complete"): Phase.DONE,
        (Phase.REFLECTING, "proceed"): Phase.EXECUTING,
        (Phase.REFLECTING, "replan"): Phase.PLANNING,
        (Phase.REFLECTING, "task_complete"): Phase.DONE,
        ("*", "fail"): Phase.ERROR,
    },
    initial=Phase.IDLE,
    final={Phase.DONE, Phase.ERROR},
    name="agent",
    version="1",
)
