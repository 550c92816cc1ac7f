"""Asking SQLite: all rows at once, so that no statement stays open."""

from __future__ import annotations

from typing import Any

import apsw


def ask(connection: apsw.Connection, query: str, bindings: Any = ()) -> list[tuple[Any, ...]]:
    """Return every row of the answer.

    Raises:
        apsw.CorruptError: a text is not text.
    """
    try:
        return connection.execute(query, bindings).fetchall()
    except UnicodeDecodeError as error:
        raise apsw.CorruptError(f"a text in it is not text: {error}") from error
