"""Words, terms and estimates of tokens that several rooms need."""

from otolith.lazy import door

TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.text.terms import signs
    from otolith.text.words import Word, content_words, is_german, stem, words_in

__all__ = [
    "Word",
    "content_words",
    "is_german",
    "signs",
    "stem",
    "words_in",
]

_HOME = {
    "Word": "words",
    "content_words": "words",
    "is_german": "words",
    "signs": "terms",
    "stem": "words",
    "words_in": "words",
}

__getattr__ = door(__name__, _HOME)
