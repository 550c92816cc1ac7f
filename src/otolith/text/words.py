"""Words: split from a text, without stop words, and as stems for comparison.

The stems are rough, for English and German alike, and never shown: they only make "flights" and
"flight", "Flüge" and "Flug" the same word.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)?|\d+(?:[.,]\d+)*")
_NAME_PARTS = re.compile(r"(?<=[a-z])(?=[A-Z])|_")
_FOLDED = str.maketrans({"ä": "a", "ö": "o", "ü": "u", "ß": "ss", "é": "e", "è": "e", "á": "a"})
_SHORTEST = 4
"""Words of fewer letters are their own stem."""

_GERMAN = """
aber acht alle allen aller als also am an andere anderen anderer anderes anrufen ans arbeiten
arbeitet auch auf aus bei beide beiden beim bestelle bestellen bezahlen bin bis bisher bist bitte
bleiben bleibt brauche brauchen brauchst buche buchen bucht da dabei dafür damit danach danke dann
daran darauf darf darin darüber das dass dauern dauert davon davor dazu daß dein deine deinem
deinen dem den denke denn der des dich die diese diesem diesen dieser dieses dir doch dort drei du
durch dürfen eben eigentlich ein eine einem einen einer eines endet er erinnere erinnern es etwas
euch euer eure fahren find finde finden fliegen fliegt frag frage fragen fährt fünf für ganz gar
gebucht gegen gehen geht gemacht genau gern gerne gestern gib gibt gibt's ging glaube glauben gut
habe haben hallo halt hast hat hatte hatten heißen heißt helfen her heute hier hilf hin hinter ich
ihm ihn ihnen ihr ihre ihrem ihren ihrer im immer in ins ist ja jede jeder jedes jene jenen jener
jenes jetzt kam kann kannst kaufe kaufen kein keine keinen klingt kommen kommt kosten kostet
kostete können könnte könnten könntest lass lassen laufen liegen liegt läuft lösche löschen mach
machen macht mag mal man manchmal mehr mein meine meinem meinen meiner mich mir mit morgen muss
musst möchte möchten möchtest mögen müssen nach natürlich neben nehme nehmen nein neun nicht
nichts nie nimm noch nun nur ob oder oft ohne ok okay passt prüfe prüfen ruf rufe rufen sag sagen
schau schauen scheint schick schicke schicken schließt schon schreib schreibe schreiben sechs sehr
sei seid sein seine seinem seinen seiner seit sich sie sieben sind so soll sollen sollte starten
startet stehen steht such suche suchen um und uns unser unsere unseren unter vergleiche
vergleichen viel viele vielleicht vier vom von vor wann war waren warum was wegen weil weiß welch
welche welchen welcher welches wem wen wenig wenige weniger wenn wer werde werden wie wieder wieso
will willst wir wird wissen wo wollen wollte wurde während wäre wären würde würden zahlen zehn
zeig zeige zeigen zu zum zur zurück zwei zwischen ändere ändern öffne öffnen öffnet über übrigens
"""

_ENGLISH_AND_ORDINALS = """
a about across actually after again against ago ahead all almost along already alright although
always among and another any anyone anything anyway are aren't around as at away awesome back be
because been before behind being beside besides between beyond bit both braucht btw but by can
can't could couldn't currently despite did didn't directly do does doesn't don't done down dritte
dritten dritter during each either eleven else enough erste ersten erster erstes even ever every
everyone everything exactly except far few fifteen fifth finally first for fourth from fünfte get
give go going got had has have he hello help here hers herself hey hi him himself his hmm how
however hundred i i'd i'll i'm i've if inside instead interesting into is isn't it it's its itself
just kind know lang lange last later least left less let let's letzte letzten letzter like little
long look lot make many may maybe me might mine more most much must my myself near need neither
never nevermind next no none nope nor not nothing now of off often oh on once one ones only onto
or other others our ours out outside over per perhaps please probably put question questions
quickly quite rather really regarding right sache say second see shall she should show since some
someone something sometimes soon sorry sort still sure take tell than thank thanks that that's the
their theirs them themselves then there there's therefore these they thing things think third
thirty this those though thousand through till to today together tomorrow too toward towards try
twelve twenty twice under unless until up upon us use usually very via vierte vierten want wasn't
way we well were what what's when where whereas whether which while who whom whose why with within
without would wow yeah yep yes yesterday yet you you're your yours yourself yup zweite zweiten
zweiter zweites
"""
GERMAN_STOP_WORDS = frozenset(_GERMAN.split())
STOP_WORDS = GERMAN_STOP_WORDS | frozenset(_ENGLISH_AND_ORDINALS.split())
"""Words that say nothing about a topic: determiners, pronouns, prepositions, common verbs."""


class Word(NamedTuple):
    """A word and its position."""

    text: str
    start: int
    end: int

    @property
    def lower(self) -> str:
        """The word in small letters, with a straight apostrophe."""
        return self.text.lower().replace("\u2019", "'")


def words_in(text: str) -> list[Word]:
    """Return the words and numbers of a text."""
    return [Word(found.group(), found.start(), found.end()) for found in _WORD.finditer(text)]


@lru_cache(maxsize=16_384)
def stem(word: str) -> str:
    """Return what words of one family have in common."""
    lower = word.lower().replace("\u2019", "'")
    bare = re.sub(r"'(s|re|ll|ve|d|m)?$", "", lower).translate(_FOLDED)
    if len(bare) < _SHORTEST or bare[0].isdigit():
        return bare
    if bare.endswith("ies"):
        return bare[:-2]
    if bare.endswith("s") and not bare.endswith(("ss", "us", "is")):
        bare = bare[:-1]
    german = ("ern", "er") if any(letter in lower for letter in "äöü") else ()
    for ending in sorted(("ing", "ed", "en", "e", *german), key=len, reverse=True):
        if bare.endswith(ending) and len(bare) - len(ending) >= 3:
            bare = bare[: -len(ending)]
            break
    if bare.endswith("y"):
        bare = bare[:-1] + "i"
    is_doubled = len(bare) > _SHORTEST and bare[-1] == bare[-2] and bare[-1] not in "ls"
    return bare[:-1] if is_doubled else bare


def split_names(text: str) -> str:
    """Return a text with spaces between the parts of identifiers."""
    return _NAME_PARTS.sub(" ", text)


def content_spellings(text: str) -> list[str]:
    """Return the words of a text without stop words, in order; identifiers are split."""
    return [
        word.text
        for word in words_in(split_names(text))
        if word.lower not in STOP_WORDS and (len(word.text) > 1 or word.text.isdigit())
    ]


def content_words(text: str) -> list[str]:
    """Return the stems of a text without stop words, in order.

    Identifiers are split: `content_words("sales_by_cityName")` is `["sal", "citi", "nam"]`.
    """
    return list(map(stem, content_spellings(text)))


def is_german(text: str, *, default: bool) -> bool:
    """Tell whether a text is German rather than English; `default` if nothing in it tells."""
    words = [word.lower for word in words_in(text)]
    german = sum(word in GERMAN_STOP_WORDS for word in words)
    english = sum(word in STOP_WORDS for word in words) - german
    german += any(letter in text for letter in "äöüßÄÖÜ")
    return default if german == english else german > english
