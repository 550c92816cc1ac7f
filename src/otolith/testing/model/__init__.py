"""A repo made of plain dicts and whole copies: slow, small, and obviously right.

Glossary: a *model commit* holds a full copy of its state; a *model branch* is a handle with a
stage, like `Branch`; `ABSENT` stands where there is no value. Compare what you build with it.
"""

from otolith.testing.model.changes import ModelChange, brute_changes, patched
from otolith.testing.model.joining import ModelConflict, brute_merge
from otolith.testing.model.lists import brute_list_merge
from otolith.testing.model.places import ABSENT
from otolith.testing.model.repo import ModelBranch, ModelCommit, ModelRepo

__all__ = [
    "ABSENT",
    "ModelBranch",
    "ModelChange",
    "ModelCommit",
    "ModelConflict",
    "ModelRepo",
    "brute_changes",
    "brute_list_merge",
    "brute_merge",
    "patched",
]
