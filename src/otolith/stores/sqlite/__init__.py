"""A store in one SQLite file: deltas, checked reads, one transaction per write."""

from otolith.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
