"""Repo: everything in one store; sessions, users and applications, each a state of its own."""

from __future__ import annotations

from typing import Any

from otolith.agent.home import Home
from otolith.agent.past import Then
from otolith.agent.session import MAIN, Versioned
from otolith.core import Commit


class Repo(Home):
    """What `otolith.open` returns. Threads may share it, and the states it gives."""

    def session(
        self,
        id: str,
        *,
        branch: str = MAIN,
        user: str | None = None,
        app: str | None = None,
        schema: Any = None,
    ) -> Versioned:
        """Return the state of a session; its first commit makes it.

        A session that is linked to a user and an application has their states as `.user` and
        `.app`, and each of its commits records which commits of theirs it saw. `schema` is a model
        class whose fields the state must have.
        """
        return Versioned(self, session=id, branch=branch, user=user, app=app, schema=schema)

    def at(self, target: Commit | str) -> Then:
        """Return the state at a commit, read-only, with what it saw of its user and application."""
        return Then(self.archive, target if isinstance(target, Commit) else self.resolve(target))

    def user(self, id: str, *, branch: str = MAIN, schema: Any = None) -> Versioned:
        """Return what is kept about a user, across sessions."""
        return Versioned(self, session=id, branch=branch, scope="user", schema=schema)

    def app(self, name: str, *, branch: str = MAIN, schema: Any = None) -> Versioned:
        """Return what is kept for an application, across users."""
        return Versioned(self, session=name, branch=branch, scope="app", schema=schema)
