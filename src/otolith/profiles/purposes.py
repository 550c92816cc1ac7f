"""Purposes: what evidence about a user may be used for, whether the user agrees, and for how long.

Evidence belongs to a purpose, and is used for no other. Without consent for it, evidence is neither
written nor used; only "learning", the purpose by default, needs none until it is taken back. Some
subjects are purposes of their own: evidence about health, religion, politics … needs the consent
for that subject as well.
What a user sets is something else: it needs no consent.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from otolith import text as language
from otolith.durations import Duration, duration_seconds
from otolith.errors import Error, NoConsent
from otolith.profiles.evidence import Evidence, check_key, option_text
from otolith.shapes import NOTHING, Shape, fields
from otolith.types import short_repr

LEARNING = "learning"

_SENSITIVE_WORDS = {
    "health": """
        abortion addict addiction adhd aids allergic allergies allergy antidepressant anxiety
        asthma asthmatic autism autistic bipolar cancer celiac chemo chemotherapy clinic coeliac
        dementia depressed depression diabetes diabetic diagnose diagnosed diagnosis dialysis
        disability disabled disease doctor epilepsy epileptic fertility gluten health hiv
        hospital illness insulin intolerance intolerant ivf medical medication medicine migraine
        miscarriage oncology pill pregnancy pregnant prescription psychiatric psychiatrist rehab
        schizophrenia sober surgery symptom therapist therapy vaccination vaccine viagra
        wheelchair
    """,
    "religion": """
        atheism atheist baptist bible buddhism buddhist catholic christian christianity church
        hajj halal hijab hindu hinduism islam jew jewish judaism koran kosher mormon
        mormonism mosque muslim pray prayer protestant quran ramadan religion religious sabbath
        sikh synagogue worship
    """,
    "politics": """
        communism communist democrat election leftist political
        politics protester republican socialism socialist trump vote voter
    """,
    "ethnicity": "ethnic ethnicity kurdish nationality racial ",
    "sexuality": """
        asexual bisexual gay gender heterosexual homosexual lesbian lgbt lgbtq
        polyamorous polyamory queer sex sexual sexuality trans transgender
    """,
    "union": "union unionised unionist unionized",
    "crime": """
        arrest arrested convicted conviction crime criminal felony jail parole prison probation
    """,
    "biometrics": """
        biometric biometrics dna faceprint fingerprint genome retina voiceprint
    """,
}
"""Words that tell that a preference is about a subject of which nothing is learned by default."""

_ABOUT = {
    LEARNING: "learning what the user prefers from behaviour, feedback and statements",
    **{name: f"learning about {name}, which is sensitive" for name in _SENSITIVE_WORDS},
}
_SHAPE: Shape = {
    "consent": (bool, NOTHING),
    "since": (int, NOTHING),
    "retention_seconds": (float, NOTHING),
    "about": str,
}


@short_repr("name", "allowed", "consent", "retention_seconds")
@dataclass(frozen=True, slots=True)
class Purpose:
    """What evidence may be used for."""

    name: str
    consent: bool | None = None
    """Whether the user agrees; None if the user was not asked."""
    since: int | None = None
    """When the user said so, in microseconds since 1970."""
    retention_seconds: float | None = None
    """How long its evidence is used; None for as long as the profile is there."""
    about: str = ""

    @property
    def is_sensitive(self) -> bool:
        """Whether nothing is learned for it unless the user agrees."""
        return self.name in _SENSITIVE_WORDS

    @property
    def allowed(self) -> bool:
        """Whether its evidence may be written and used."""
        return self.consent if self.consent is not None else self.name == LEARNING

    def to_data(self) -> dict[str, Any]:
        """Return the purpose as it is stored."""
        data = {name: getattr(self, name) for name in _SHAPE}
        return {name: each for name, each in data.items() if each not in (None, "")}


class Purposes(Mapping[str, Purpose]):
    """The purposes of a profile, by name: those that have a default, and those that were stored."""

    def __init__(self, stored: Mapping[str, object]) -> None:
        found = {name: Purpose(name, about=about) for name, about in _ABOUT.items()}
        for name, data in stored.items():
            given = fields(data, f".profile/purposes/{name}", {}, _SHAPE, is_open=True)
            found[name] = replace(found.get(name, Purpose(name)), **given)
        self._found = found

    def __getitem__(self, name: str) -> Purpose:
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        allowed = ", ".join(name for name, each in self.items() if each.allowed)
        return f"<Purposes {allowed or 'none'} allowed, of {len(self)}>"

    def needed_for(self, evidence: Evidence) -> list[Purpose]:
        """Return the purposes that evidence needs consent for."""
        texts = (evidence.context, evidence.source, evidence.quote)
        subjects = sensitive_subjects(evidence.key, evidence.value, *texts)
        names = dict.fromkeys([evidence.purpose, *subjects])
        return [self._found.get(name, Purpose(name)) for name in names]

    def check(self, evidence: Evidence) -> None:
        """Refuse evidence without consent.

        Raises:
            NoConsent: the user has not agreed to one of its purposes.
        """
        for purpose in self.needed_for(evidence):
            if not purpose.allowed:
                why = "sensitive" if purpose.is_sensitive else "not asked yet"
                why = why if purpose.consent is None else "withdrawn"
                raise NoConsent(
                    f"{evidence.key}: the user has not agreed to {purpose.name} ({why})",
                    purpose=purpose.name,
                    hint=f"ask the user, then profile.consent({purpose.name!r}, True)",
                )

    def may_use(self, evidence: Evidence, now: int) -> bool:
        """Tell whether evidence may be used: all of its purposes are allowed, and it is not old."""
        allowed = all(purpose.allowed for purpose in self.needed_for(evidence))
        return allowed and not self.is_over(evidence, now)

    def is_over(self, evidence: Evidence, now: int) -> bool:
        """Tell whether evidence is older than one of its purposes lets it be."""
        keeps = (purpose.retention_seconds for purpose in self.needed_for(evidence))
        return any(
            keep is not None and evidence.time + int(keep * 1_000_000) <= now for keep in keeps
        )

    @property
    def shortest_retention(self) -> float | None:
        """The shortest time after which evidence is not used any more; None if there is none."""
        times = [each.retention_seconds for each in self.values()]
        return min((each for each in times if each is not None), default=None)


def sensitive_subjects(key: str, value: object, *texts: str) -> tuple[str, ...]:
    """Return the sensitive subjects that a preference is about, by its words."""
    return _subjects(" ".join([key, option_text(value), *texts]))


_WORD_STARTS = re.compile(r"(?<=[a-z])(?=[A-Z])")
_SPELLED = re.compile(r"\b(?:\w\.){2,}")


@lru_cache(maxsize=4096)
def _subjects(text: str) -> tuple[str, ...]:
    plain = _WORD_STARTS.sub(" ", unicodedata.normalize("NFKC", text)).replace("_", " ")
    plain = _SPELLED.sub(lambda found: found[0].replace(".", ""), plain)
    stems = {language.stem(word.lower) for word in language.words_in(plain)}
    return tuple(name for name, words in _sensitive_stems().items() if stems & words)


@lru_cache(maxsize=1)
def _sensitive_stems() -> dict[str, frozenset[str]]:
    return {
        name: frozenset(language.stem(word) for word in words.split())
        for name, words in _SENSITIVE_WORDS.items()
    }


def check_purpose(name: object) -> str:
    """Return the name of a purpose if it is one."""
    return check_key(name)


def retention_seconds(time: Duration | None) -> float | None:
    """Return for how many seconds evidence is used."""
    return None if time is None else duration_seconds(time, "retention")


def merge_purposes(base: Any, ours: Any, theirs: Any) -> Any:
    """Merge two versions of a purpose: a consent that one side took back is taken back.

    Else what the user said last holds. Of two times of retention the shorter one holds.

    Returns NotImplemented if the data are something else.
    """
    try:
        mine, yours, before = (
            Purpose("", **fields(each or {}, "a purpose", {}, _SHAPE, is_open=True))
            for each in (ours, theirs, base)
        )
    except Error:
        return NotImplemented
    changed = [each for each in (mine, yours) if each.consent is not before.consent]
    said = max(
        changed or [mine, yours],
        key=lambda each: (each.consent is False and before.consent is not False, each.since or -1),
    )
    keeps = [
        each.retention_seconds
        for each in (mine, yours)
        if each.retention_seconds != before.retention_seconds
    ]
    keep = min((each for each in keeps if each is not None), default=None)
    return replace(
        said,
        retention_seconds=keep if keeps else before.retention_seconds,
        about=mine.about if mine.about != before.about else yours.about,
    ).to_data()
