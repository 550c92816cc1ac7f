"""Texts: words and stems, their ranking, what was replaced, and values on one line.

Names are loaded on first use; rooms with hot paths import the modules themselves.
"""

from otolith.lazy import door

TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.text.lines import (
        bracketed,
        clip,
        clip_pieces,
        dotted_name,
        parse_size,
        printable,
        quoted,
        size_text,
    )
    from otolith.text.ranking import TextIndex, TextMatch
    from otolith.text.replacements import Replacement, edits_between
    from otolith.text.terms import signs
    from otolith.text.words import Word, content_words, is_german, stem, words_in

__all__ = [
    "Replacement",
    "TextIndex",
    "TextMatch",
    "Word",
    "bracketed",
    "clip",
    "clip_pieces",
    "content_words",
    "dotted_name",
    "edits_between",
    "is_german",
    "parse_size",
    "printable",
    "quoted",
    "signs",
    "size_text",
    "stem",
    "words_in",
]

_HOME = dict.fromkeys(__all__, "lines") | {
    "Replacement": "replacements",
    "TextIndex": "ranking",
    "TextMatch": "ranking",
    "Word": "words",
    "content_words": "words",
    "is_german": "words",
    "edits_between": "replacements",
    "signs": "terms",
    "stem": "words",
    "words_in": "words",
}

__getattr__ = door(__name__, _HOME)
