"""Who and what a conversation speaks of: read from messages, kept in a register.

Read `reading.py`, then `prose.py` and `shown.py`, then `register.py`. No model is asked, and no
file is opened: all that is known of words is in `lexicon.py` and `kinds.py`.
"""

from otolith.agent.conversation.entities.mention import Entity, Found, Mention
from otolith.agent.conversation.entities.reading import Read, read, said, texts_of
from otolith.agent.conversation.entities.register import Known, Moment, Register, ShownList
from otolith.agent.conversation.entities.words import content_words, is_german, stem, words_in

__all__ = [
    "Entity",
    "Found",
    "Known",
    "Mention",
    "Moment",
    "Read",
    "Register",
    "ShownList",
    "content_words",
    "is_german",
    "read",
    "said",
    "stem",
    "texts_of",
    "words_in",
]
