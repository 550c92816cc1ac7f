"""Purposes: what evidence about a user may be used for, whether the user agrees, and for how long.

Evidence belongs to a purpose, "learning" by default. Without consent for it, evidence is neither
written nor used. Some subjects are purposes of their own, to which nobody has agreed until the user
says so: evidence about health, religion, politics … needs the consent for that subject as well.
What a user sets is something else: it needs no consent.
"""

from __future__ import annotations

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
        addict addiction aids allergic allergy antidepressant anxiety asthma autism autistic bipolar
        cancer chemotherapy coeliac celiac dementia depressed depression diabetes diabetic diagnosis
        dialysis disability disabled disease doctor epilepsy hiv illness insulin intolerant
        medication medicine migraine miscarriage pregnancy pregnant prescription psychiatrist
        schizophrenia surgery symptom therapist therapy wheelchair
    """,
    "religion": """
        atheist baptist bible buddhist catholic christian church hajj halal hindu islam jewish
        jew koran kosher mosque muslim pray prayer protestant quran ramadan religion
        religious sabbath sikh synagogue
    """,
    "politics": """
        communist democrat election leftist politics political protester
        republican socialist vote voter
    """,
    "ethnicity": "ethnicity ethnic racial",
    "sexuality": """
        asexual bisexual gay gender heterosexual homosexual lesbian lgbt queer sex sexual
        sexuality transgender
    """,
    "union": "union unionist",
    "crime": "arrest arrested conviction convicted crime criminal felony jail parole prison",
    "biometrics": "biometric biometrics dna faceprint fingerprint genome voiceprint",
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
        return self.consent if self.consent is not None else not self.is_sensitive

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
        subjects = sensitive_subjects(evidence.key, evidence.value, evidence.context)
        names = dict.fromkeys([evidence.purpose, *subjects])
        return [self._found.get(name, Purpose(name)) for name in names]

    def check(self, evidence: Evidence) -> None:
        """Refuse evidence without consent.

        Raises:
            NoConsent: the user has not agreed to one of its purposes.
        """
        for purpose in self.needed_for(evidence):
            if not purpose.allowed:
                why = "sensitive" if purpose.consent is None else "withdrawn"
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


def sensitive_subjects(key: str, value: object, context: str = "") -> tuple[str, ...]:
    """Return the sensitive subjects that a preference is about, by its words."""
    return _subjects(f"{key} {option_text(value)} {context}")


@lru_cache(maxsize=4096)
def _subjects(text: str) -> tuple[str, ...]:
    stems = {language.stem(word.lower) for word in language.words_in(text)}
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
    """Merge two versions of a purpose: what the user said last holds, and the shorter retention.

    Returns NotImplemented if the data are something else.
    """
    try:
        mine, yours, before = (
            Purpose("", **fields(each or {}, "a purpose", {}, _SHAPE, is_open=True))
            for each in (ours, theirs, base)
        )
    except Error:
        return NotImplemented
    said = max((mine, yours), key=lambda each: (each.since or -1, each.consent is False))
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
