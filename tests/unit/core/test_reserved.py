"""What a state keeps beside the user's own is merged by rules that no pattern changes."""

from __future__ import annotations

import pytest

from otolith.core import CONVERSATION, MEMORY
from otolith.core.merge.policies import RESERVED, Policies

EVERYTHING = Policies({"**": "ours", "*": "theirs", f"{CONVERSATION}/main": "theirs"})


@pytest.mark.parametrize(
    ("path", "is_map", "policy"),
    [
        ((CONVERSATION,), True, None),
        ((CONVERSATION, "main"), False, "log"),
        ((CONVERSATION, "usage"), False, "log"),
        ((CONVERSATION, ".usage.main"), False, "log"),
        ((CONVERSATION, ".about.main"), True, None),
        ((CONVERSATION, ".about.main", "time"), False, "last-writer"),
        ((CONVERSATION, ".calls.main"), True, None),
        ((CONVERSATION, ".calls.main", "call_1"), False, "last-writer"),
        ((CONVERSATION, ".stays.main", "0a1b"), False, "last-writer"),
        ((CONVERSATION, ".files.main", "0a1b"), False, "last-writer"),
        ((CONVERSATION, ".summaries.main", "00000005-0a"), True, None),
        ((CONVERSATION, ".summaries.main", "00000005-0a", "text"), False, "last-writer"),
        ((MEMORY,), True, None),
        ((MEMORY, "goal"), False, "last-writer"),
        ((MEMORY, "task"), True, None),
        ((MEMORY, "task", "status"), False, "last-writer"),
        ((MEMORY, "data", "destination"), False, "last-writer"),
        ((MEMORY, "plan"), True, "call:memory-plan"),
        ((MEMORY, "notes"), True, None),
        ((MEMORY, "notes", "airline"), True, "call:memory-note"),
        ((MEMORY, "calls"), False, "append"),
    ],
)
def test_a_rule_decides_whatever_the_user_wants_elsewhere(path, is_map, policy):
    assert EVERYTHING.find(path, is_map=is_map) == policy


def test_what_the_user_keeps_has_no_rule_of_ours():
    assert all(name.startswith(".") for name in RESERVED)
    assert EVERYTHING.find(("conversation", "main")) == "ours"
