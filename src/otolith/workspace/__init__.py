"""The door of workspaces: variables, imports and files that outlive the process that made them.

Workspace        runs code in steps on the variables and files of a state; each step is a commit
Runner           how steps are run: in what sandbox, within which limits, in one process or in many
Step             what a step came to
Variable         what is known of a variable without reading it; `variables_in` a state has all
Difference       a variable or a file that is not what it was; `workspace_diff` finds them
branch_folder    the work folder of a branch, beside its store
ladder           every sandbox, and why it does not work here if it does not

Read `workspace.py` for the host, `worker/worker.py` for what runs in the sandbox, and
`worker/capture.py` for how variables are kept; `work_folder.py` for the work folder. The names are
loaded when they are first asked for: a state has this door without paying for what is behind it.
"""

from otolith.lazy import door

TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.workspace.diff import Difference, workspace_diff
    from otolith.workspace.sandbox import ladder
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
    "branch_folder",
    "ladder",
    "variables_in",
    "workspace_diff",
]

_HOME = {
    "Difference": "diff",
    "Runner": "step",
    "Step": "step",
    "Variable": "variables",
    "Workspace": "workspace",
    "branch_folder": "work_folder",
    "ladder": "sandbox",
    "variables_in": "variables",
    "workspace_diff": "diff",
}

__getattr__ = door(__name__, _HOME)
