"""Workspaces: variables, imports and files that outlive the process that made them.

Workspace        runs code in steps on the variables and files of a state; each step is a commit
Runner           how steps are run: their sandbox, their limits, one process for each or for many
Step             the result of a step
Variable         the description of a variable; `variables_in` returns those of a state
WorkspaceConflict  a variable or file that a merge leaves to decide; `WorkspaceConflicts` has all
Difference       a variable or a file that differs between commits; `workspace_diff` finds them
branch_folder    the work folder of a branch, beside its store
sandbox_status   every sandbox, and why it does not work here if it does not

Read `workspace.py` for the host, `step_runner.py` for one step on one worker, `worker/worker.py`
for what runs in the sandbox, `worker/capture.py` for how variables are stored, and `work_folder.py`
for the work folder. Names are loaded when they are first used: importing this package is cheap.
"""

from otolith.lazy import door

TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.workspace.diff import Difference, table_differences, workspace_diff
    from otolith.workspace.merge_conflicts import WorkspaceConflict, WorkspaceConflicts
    from otolith.workspace.sandbox import sandbox_status
    from otolith.workspace.step import Runner, Step
    from otolith.workspace.variables import Variable, variables_in
    from otolith.workspace.work_folder import branch_folder
    from otolith.workspace.workspace import Workspace

__all__ = [
    "Difference",
    "Runner",
    "Step",
    "Variable",
    "Workspace",
    "WorkspaceConflict",
    "WorkspaceConflicts",
    "branch_folder",
    "sandbox_status",
    "table_differences",
    "variables_in",
    "workspace_diff",
]

_HOME = {
    "Difference": "diff",
    "Runner": "step",
    "Step": "step",
    "Variable": "variables",
    "Workspace": "workspace",
    "WorkspaceConflict": "merge_conflicts",
    "WorkspaceConflicts": "merge_conflicts",
    "branch_folder": "work_folder",
    "sandbox_status": "sandbox",
    "table_differences": "diff",
    "variables_in": "variables",
    "workspace_diff": "diff",
}

__getattr__ = door(__name__, _HOME)
