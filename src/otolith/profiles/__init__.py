"""Profiles: what is known about a user, on what basis, and what it may be used for.

    ann = repo.user("ann").profile
    ann.set("seat", "aisle")                        # holds until it is unset
    ann.observe("seat", "window", source=message)   # evidence; never overrides what was set
    ann.prefer("seat").value                        # "aisle"
    ann.why("seat")                                 # all evidence, each with its commit

Read `profile.py` first, then `evidence.py` and `storage.py` for the stored form. Only evidence is
stored. What is believed follows from it: `current_view.py`, `key_view.py` and `learner.py`.
`statements/` reads what a user says in a conversation.

Glossary: *evidence* is one thing that the user set, said, chose or liked; a *preference* is what
is believed of one key, and its *basis* is set, learned or default; a *context* is when it holds,
such as "business trips"; a *purpose* is what evidence may be used for, and needs consent; a
*setting* is a key that the application declares, with a type and a default.
"""

from otolith.lazy import door

TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.profiles.declared_settings import Setting, Settings
    from otolith.profiles.evidence import Evidence, EvidenceKind
    from otolith.profiles.learner import Learner, Option, Shift
    from otolith.profiles.preference import (
        Contradiction,
        EvidenceLine,
        Explanation,
        Preference,
        PreferenceChange,
        RunnerUp,
    )
    from otolith.profiles.profile import Profile, open_profile
    from otolith.profiles.profile_prompt import ProfilePrompt
    from otolith.profiles.purposes import Purpose, Purposes, merge_purposes
    from otolith.profiles.statements import Fact, Learned, RefusedStatement, read_facts

__all__ = [
    "Contradiction",
    "Evidence",
    "EvidenceKind",
    "EvidenceLine",
    "Explanation",
    "Fact",
    "Learned",
    "Learner",
    "Option",
    "Preference",
    "PreferenceChange",
    "Profile",
    "ProfilePrompt",
    "Purpose",
    "Purposes",
    "RefusedStatement",
    "RunnerUp",
    "Setting",
    "Settings",
    "Shift",
    "merge_purposes",
    "open_profile",
    "read_facts",
]

_HOME = dict.fromkeys(__all__, "preference") | {
    **dict.fromkeys(["Evidence", "EvidenceKind"], "evidence"),
    **dict.fromkeys(["Learner", "Option", "Shift"], "learner"),
    **dict.fromkeys(["Purpose", "Purposes", "merge_purposes"], "purposes"),
    **dict.fromkeys(["Setting", "Settings"], "declared_settings"),
    **dict.fromkeys(["Fact", "Learned", "RefusedStatement", "read_facts"], "statements"),
    **dict.fromkeys(["Profile", "open_profile"], "profile"),
    "ProfilePrompt": "profile_prompt",
}

__getattr__ = door(__name__, _HOME)
