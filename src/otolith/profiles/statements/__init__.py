"""Statements: what a user says of themselves in a conversation, learned as evidence.

    learned = ann.learn(state.conversation)
    print(learned)          # what was learned, from which message, what was refused, what to ask

Rules find it, in English. A key is what a person would guess:

    said                                      key                   value
    I prefer window seats to aisle            seat                  "window"
    on business trips I prefer the aisle      seat                  "aisle", when: business trip
    my favourite airline is Lufthansa         airline               "Lufthansa"
    I always fly Lufthansa                    airline               "Lufthansa"
    I prefer tea to coffee                    drink                 "tea"
    I prefer books to films                   book or film          "book"
    I like hiking                             hiking                True
    I don't like spicy food                   food/spicy            False
    never book morning flights                flight/morning        False
    I'm vegetarian                            diet                  "vegetarian"
    call me Ann                               name                  "Ann"
    answer in German; in German, please       answers/language      "German"
    too long; I hate long answers             answers/length        "short"
    be more formal                            answers/tone          "formal"
    no more emojis                            answers/emoji         False

What is chosen has the noun as key and which of its kind as value. What is liked or not has the noun
and which of its kind as key. Nouns are in the singular. What somebody dislikes of a kind also
speaks against choosing it: "I don't like aisle seats" is evidence against `seat` = "aisle", so that
it meets "I want an aisle seat". A declared setting that fits takes the place of the key.

"I want an aisle seat", said once, may be meant for once. It is learned as a choice, and only for a
key that is declared or already known. "Forget what I said about seats" is evidence against what was
said; what was set stays set.

A `model` proposes more. It is a function that gets the new messages of the user, or a model with
`complete`. It returns a list of proposals, or such a list as JSON; each names a key, a value, and
the words of a message that say so. No proposal is trusted: what is not a quotation, not plain, not
allowed or not valid is refused, with the reason. No model service is part of the tests of this
module: they use functions that return what models return, and worse.

Read `statement_reader.py` first: it reads a conversation. `clauses.py` finds the clauses that the
user means, `preference_rules.py` and `instruction_rules.py` read them by the words and patterns of
`words.toml`, `noun_phrases.py` and `facts.py` give key and value, `setting_matcher.py` the declared
setting, `model_proposals.py` what a model adds.
"""

from otolith.lazy import door

TYPE_CHECKING = False

if TYPE_CHECKING:
    from otolith.profiles.statements.facts import Fact
    from otolith.profiles.statements.model_proposals import Said
    from otolith.profiles.statements.preference_rules import read_facts
    from otolith.profiles.statements.statement_reader import (
        Dialogue,
        DialogueMessage,
        Learned,
        RefusedStatement,
        learn,
    )

__all__ = [
    "Dialogue",
    "DialogueMessage",
    "Fact",
    "Learned",
    "RefusedStatement",
    "Said",
    "learn",
    "read_facts",
]  # fmt: skip

_HOME = {
    **dict.fromkeys(__all__, "statement_reader"),
    "Fact": "facts",
    "Said": "model_proposals",
    "read_facts": "preference_rules",
}
__getattr__ = door(__name__, _HOME)
