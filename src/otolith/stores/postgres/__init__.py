"""A store in a schema of a PostgreSQL database, shared by many machines; see `store.py`."""

from otolith.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
