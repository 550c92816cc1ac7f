"""Teams: several agents, processes and people on one state.

    team = repo.team("research", member="planner")
    team.transact(lambda state: state.counter("tokens").add(512), "asked")
    for change in team.watch("plan/"): ...
    with team.lease("browser", ttl="30s"): ...
    proposal = team.propose("switch to plan B", change, quorum=2)

Read `team.py` first, then `records.py` for the stored form. What everybody must agree on at this
moment (`requests.py`, then `leases.py` and `queue.py`) is in shared maps beside the branches; all
else is part of the team's state, committed and merged like any value: members, messages, proposals,
the inbox, and who works on which session. Modules are loaded when one of their names is first used.

Glossary: a *member* is an agent or a person that commits to the state of a team; a *lease* is the
right to be the only one for a while; a *slot* is a place in a queue's turn; a *proposal* is a
change that lands when enough members approve; the *inbox* has the conflicts that nobody has decided
yet; a *handoff* gives a session to another member.
"""

from otolith.lazy import door

TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.teams.change_watch import Watch, WatchedChange
    from otolith.teams.handoff import SessionOwner
    from otolith.teams.inbox import ConflictCount, Inbox, InboxConflict
    from otolith.teams.leases import LeaseEntry, StateLeases, TeamLease
    from otolith.teams.members import Member
    from otolith.teams.messages import TeamMessage
    from otolith.teams.proposal_record import PROPOSAL_TABLE, Vote, merge_proposals
    from otolith.teams.proposals import Proposal
    from otolith.teams.queue import FairQueue, QueueEntry, QueueSlot
    from otolith.teams.requests import Request
    from otolith.teams.team import Team

__all__ = [
    "PROPOSAL_TABLE",
    "ConflictCount",
    "FairQueue",
    "Inbox",
    "InboxConflict",
    "LeaseEntry",
    "Member",
    "Proposal",
    "QueueEntry",
    "QueueSlot",
    "Request",
    "SessionOwner",
    "StateLeases",
    "Team",
    "TeamLease",
    "TeamMessage",
    "Vote",
    "Watch",
    "WatchedChange",
    "merge_proposals",
]

_HOME = {
    **dict.fromkeys(["ConflictCount", "Inbox", "InboxConflict"], "inbox"),
    **dict.fromkeys(["LeaseEntry", "StateLeases", "TeamLease"], "leases"),
    **dict.fromkeys(["PROPOSAL_TABLE", "Vote", "merge_proposals"], "proposal_record"),
    **dict.fromkeys(["FairQueue", "QueueEntry", "QueueSlot"], "queue"),
    **dict.fromkeys(["Watch", "WatchedChange"], "change_watch"),
    "Member": "members",
    "Proposal": "proposals",
    "Request": "requests",
    "SessionOwner": "handoff",
    "Team": "team",
    "TeamMessage": "messages",
}

__getattr__ = door(__name__, _HOME)
