"""Names and nouns in running text, in English and German; values and lists are found elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from otolith.agent.conversation.entities.english import english
from otolith.agent.conversation.entities.german import german
from otolith.agent.conversation.entities.mention import Found
from otolith.agent.conversation.entities.pieces import sentences_in


def prose_in(
    text: str, taken: list[tuple[int, int]], *, is_german: bool
) -> Iterator[tuple[int, int, Found]]:
    """Yield names and nouns with where they stand; what is taken already is left out."""
    read = german if is_german else english
    for pieces in sentences_in(text, taken):
        yield from read(pieces, text)
