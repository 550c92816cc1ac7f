"""Flows: durable graphs of tasks, in the state.

    flow = Flow("book-flight")

    @flow.task(retries=3)
    def search(dest: str) -> list[str]: ...

    run = state.flow(flow, dest="NYC", key="trip-42")
    run.work(workers=4)

Read `flow_definition.py`, then `lifecycle.py` for what can happen to a task and `storage.py` for
what is stored, then `run_worker.py` for how it is done. Modules are loaded when they are needed.

Glossary: a *flow* is a graph of tasks with functions; a *run* is what is done of it in a state; a
*worker* takes tasks of a run, one attempt of which is a *job*; an *executor* runs jobs; the *board*
is a run in memory; a *result* lands when it is committed.
"""

from otolith.lazy import door

TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.flows.bottlenecks import Bottleneck, Halt, bottlenecks
    from otolith.flows.executors import (
        Executor,
        InlineExecutor,
        JobHandle,
        ProcessExecutor,
        ThreadExecutor,
    )
    from otolith.flows.flow_definition import Flow, FlowTask, Task, TaskSpec
    from otolith.flows.flow_run import FlowRun
    from otolith.flows.forecast import Forecast
    from otolith.flows.graph import Schedule, TaskGraph
    from otolith.flows.jobs import JobEnd, TaskContext, TaskJob
    from otolith.flows.lifecycle import STATUSES, TASK_TABLE, TaskRecord
    from otolith.flows.open_run import open_run, open_runs
    from otolith.flows.pictures import (
        FlowPicture,
        TaskTimes,
        gantt_svg,
        graph_svg,
        mermaid,
        report_html,
    )
    from otolith.flows.presence import WorkerPresence
    from otolith.flows.progress_line import ExpectedEnd, ProgressLine, path_text, seconds_text
    from otolith.flows.remote_executors import DaskExecutor, DbosExecutor, open_executor
    from otolith.flows.run_views import RunProgress, TaskChange, TaskView
    from otolith.flows.schedules import (
        Estimate,
        Timeline,
        WhatIf,
        Work,
        best_priorities,
        eta,
        simulate,
        what_if,
    )
    from otolith.flows.storage import branches_of_tasks, merge_tasks, plan_fault, run_keys
    from otolith.flows.store_worker import StoreWorker, WorkProgress, WorkReport

__all__ = [
    "STATUSES",
    "TASK_TABLE",
    "Bottleneck",
    "DaskExecutor",
    "DbosExecutor",
    "Estimate",
    "Executor",
    "ExpectedEnd",
    "Flow",
    "FlowPicture",
    "FlowRun",
    "FlowTask",
    "Forecast",
    "Halt",
    "InlineExecutor",
    "JobEnd",
    "JobHandle",
    "ProcessExecutor",
    "ProgressLine",
    "RunProgress",
    "Schedule",
    "StoreWorker",
    "Task",
    "TaskChange",
    "TaskContext",
    "TaskGraph",
    "TaskJob",
    "TaskRecord",
    "TaskSpec",
    "TaskTimes",
    "TaskView",
    "ThreadExecutor",
    "Timeline",
    "WhatIf",
    "Work",
    "WorkProgress",
    "WorkReport",
    "WorkerPresence",
    "best_priorities",
    "bottlenecks",
    "branches_of_tasks",
    "eta",
    "gantt_svg",
    "graph_svg",
    "merge_tasks",
    "mermaid",
    "open_executor",
    "open_run",
    "open_runs",
    "path_text",
    "plan_fault",
    "report_html",
    "run_keys",
    "seconds_text",
    "simulate",
    "what_if",
]

_HOME = {
    **dict.fromkeys(["Flow", "FlowTask", "Task", "TaskSpec"], "flow_definition"),
    **dict.fromkeys(
        ["Executor", "InlineExecutor", "JobHandle", "ProcessExecutor", "ThreadExecutor"],
        "executors",
    ),
    **dict.fromkeys(["DaskExecutor", "DbosExecutor", "open_executor"], "remote_executors"),
    **dict.fromkeys(["Schedule", "TaskGraph"], "graph"),
    **dict.fromkeys(["TaskJob", "JobEnd", "TaskContext"], "jobs"),
    **dict.fromkeys(["STATUSES", "TASK_TABLE", "TaskRecord"], "lifecycle"),
    **dict.fromkeys(["open_run", "open_runs"], "open_run"),
    **dict.fromkeys(["RunProgress", "TaskChange", "TaskView"], "run_views"),
    **dict.fromkeys(
        ["FlowPicture", "TaskTimes", "gantt_svg", "graph_svg", "mermaid", "report_html"], "pictures"
    ),
    **dict.fromkeys(["Estimate", "Timeline", "WhatIf", "Work"], "schedules"),
    **dict.fromkeys(["Bottleneck", "Halt", "bottlenecks"], "bottlenecks"),
    **dict.fromkeys(["best_priorities", "eta", "simulate", "what_if"], "schedules"),
    **dict.fromkeys(["branches_of_tasks", "merge_tasks", "plan_fault", "run_keys"], "storage"),
    **dict.fromkeys(["StoreWorker", "WorkProgress", "WorkReport"], "store_worker"),
    "FlowRun": "flow_run",
    "Forecast": "forecast",
    **dict.fromkeys(["ExpectedEnd", "ProgressLine", "path_text", "seconds_text"], "progress_line"),
    "WorkerPresence": "presence",
}

__getattr__ = door(__name__, _HOME)
