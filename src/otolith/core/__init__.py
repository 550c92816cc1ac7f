"""Versioned states: trees, commits, branches, merges; pure values and functions over hashes.

Read `branch.py` and `committer.py`, then `trees/maps.py`, then `merge/three_way.py`.

Glossary: a *cell* is a value as it stands in a tree; a *stage* holds edits that are not committed;
a *branch* is a ref with a stage on top; a *stash* is a stage in the store; a *snapshot* is a state
at a commit, read-only; a *policy* decides where a merge finds two answers; a *handle* reads and
writes one value; an *attempt* is what was begun under a key, whatever becomes of the branch. No
clock, randomness, file or thread is used here; they are arguments.
"""

from otolith.core.attempts import Attempt, Attempts, AttemptStatus
from otolith.core.backend import Backend, pack, unpack
from otolith.core.branch import Branch, Expected, Target, WorkingValues
from otolith.core.committer import Committer
from otolith.core.handles import (
    BlobHandle,
    CounterHandle,
    ListHandle,
    MapHandle,
    SetHandle,
    Snapshot,
    StateReader,
    synchronized,
)
from otolith.core.history.blame import Blame
from otolith.core.history.commits import Commit, CommitStats, decode_commit, is_commit, links
from otolith.core.history.refs import (
    ERASED,
    SCOPES,
    erased_ref,
    is_branch_ref,
    is_tag_ref,
    receipt_ref,
    scope_ref,
    split_ref,
    stage_ref,
)
from otolith.core.merge.diff import Change, differences, differences_outside, list_middle
from otolith.core.merge.three_way import Merge, PathConflict
from otolith.core.paths import (
    ALIASES,
    CONVERSATION,
    EVENTS,
    FLOWS,
    LIFECYCLE,
    LOOP,
    MEMORY,
    POLICY,
    PROFILE,
    SNAPSHOTS,
    TEAM,
    WORKSPACE,
    Path,
    format_path,
    parse_own_path,
    parse_path,
)
from otolith.core.repo import BareRepo, Session
from otolith.core.shared_map import SHARED, MapEdit, SharedMap, attempts_ref, orphans, shared_ref
from otolith.core.stage import Stage, field_stays
from otolith.core.transactions import PATIENCE_SECONDS
from otolith.core.transfer import CopyTotals, Transfer
from otolith.core.trees.cells import Cells, index_in
from otolith.core.trees.encoding import Encoding
from otolith.core.trees.layout import digest
from otolith.core.trees.objects import Buffer, is_leaf
from otolith.core.trees.soundness import (
    Claim,
    Totals,
    cell_claims,
    claims,
    flaws,
    ordered_cells,
    root_flaws,
    totals,
)

__all__ = [
    "ALIASES",
    "CONVERSATION",
    "ERASED",
    "EVENTS",
    "FLOWS",
    "LIFECYCLE",
    "LOOP",
    "MEMORY",
    "PATIENCE_SECONDS",
    "POLICY",
    "PROFILE",
    "SCOPES",
    "SHARED",
    "SNAPSHOTS",
    "TEAM",
    "WORKSPACE",
    "Attempt",
    "AttemptStatus",
    "Attempts",
    "Backend",
    "BareRepo",
    "Blame",
    "BlobHandle",
    "Branch",
    "Buffer",
    "Cells",
    "Change",
    "Claim",
    "Commit",
    "CommitStats",
    "Committer",
    "CopyTotals",
    "CounterHandle",
    "Encoding",
    "Expected",
    "ListHandle",
    "MapEdit",
    "MapHandle",
    "Merge",
    "Path",
    "PathConflict",
    "Session",
    "SetHandle",
    "SharedMap",
    "Snapshot",
    "Stage",
    "StateReader",
    "Target",
    "Totals",
    "Transfer",
    "WorkingValues",
    "attempts_ref",
    "cell_claims",
    "claims",
    "decode_commit",
    "differences",
    "differences_outside",
    "digest",
    "erased_ref",
    "field_stays",
    "flaws",
    "format_path",
    "index_in",
    "is_branch_ref",
    "is_commit",
    "is_leaf",
    "is_tag_ref",
    "links",
    "list_middle",
    "ordered_cells",
    "orphans",
    "pack",
    "parse_own_path",
    "parse_path",
    "receipt_ref",
    "root_flaws",
    "scope_ref",
    "shared_ref",
    "split_ref",
    "stage_ref",
    "synchronized",
    "totals",
    "unpack",
]
