"""A log that is followed: what it is about, who and what it speaks of, and what "it" means.

Nothing of this is kept: it is worked out of what was said, once for each message, in this process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from otolith.agent import workspace
from otolith.agent.conversation import references, topics
from otolith.agent.conversation.windowed import Windowed
from otolith.core import WORKSPACE

if TYPE_CHECKING:  # most conversations are never asked, and need not load any of this
    from otolith.agent.conversation.entities import Entity
    from otolith.agent.conversation.references import Candidate, Tracker
    from otolith.agent.conversation.references import Judge as Chooser
    from otolith.agent.conversation.topics import Judge, Topic


class Followed(Windowed):
    """A log of which it is known what it is about."""

    def topics(self, *, judge: Judge | None = None) -> list[Topic]:
        """Return what the conversation is about, in the order in which it came up.

        Each topic has its spans of messages, its keywords, and whether it is active, suspended or
        closed. `judge`, perhaps a model, may overrule what the rules say of a turn.
        """
        if judge is not None:
            return topics.topics_of(list(self), judge=judge)
        with self.state.turn():
            return self._tracker().segmenter.topics()

    def entities(self) -> list[Entity]:
        """Return who and what was spoken of, in the order in which it came up."""
        with self.state.turn():
            tracker = self._tracker()
            end = (len(tracker.clock), 0)
            return [each.entity(end) for each in tracker.register.entities if each.before(end)]

    def resolve(
        self,
        phrase: str,
        *,
        at: int | None = None,
        variables: Iterable[str] | Mapping[str, str] | None = None,
        judge: Chooser | None = None,
    ) -> list[Candidate]:
        """Return what a phrase ("it", "the second one") may mean, the best first, with reasons.

        It is said next, or in message `at`. Variables of the workspace may be meant as well, if
        no others are given. `judge`, perhaps a model, may choose among the candidates. Nothing is
        returned that was not spoken of; two scores that are close are ambiguous.

        Raises:
            BadValue: there is no message `at`.
        """
        with self.state.turn():
            names = self._variables() if variables is None else variables
            if at is None or at == len(self):
                tracker = self._tracker()
                return references.resolve_next(tracker, self, phrase, variables=names, judge=judge)
            return references.resolve(list(self), phrase, at=at, variables=names, judge=judge)

    def _tracker(self) -> Tracker:
        """Return what follows the whole thread, after it has read what is new."""
        record = self._record
        known = record.taken(record.shelf.trackers)
        tracker = references.Tracker() if known is None else known.what
        for message in record.unread(0 if known is None else known.length):
            tracker.add(message)
        record.shelf.trackers[self.thread_name] = record.marked(tracker)
        return tracker

    def _variables(self) -> dict[str, str]:
        """Return the variables of the workspace, each with its type."""
        if self.state.cell_at((WORKSPACE,)) is None:
            return {}
        return {each.name: each.type for each in workspace.variables_in(self.state)}
