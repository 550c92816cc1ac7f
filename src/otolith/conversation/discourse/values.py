"""Values in a text: prices, dates, times, numbers, files and addresses; and what things measure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from otolith.conversation.discourse.mentions import Found
from otolith.text.words import content_words

_NUMBER = r"\d+(?:[.,]\d+)*"
_MONTHS = (
    "jan(?:uary|uar)?|feb(?:ruary|ruar)?|mar(?:ch)?|mär(?:z)?|apr(?:il)?|may|mai|june?|juni|july?|juli"
    "|aug(?:ust)?|sep(?:t(?:ember)?)?|oct(?:ober)?|okt(?:ober)?|nov(?:ember)?|dec(?:ember)?|dez(?:ember)?"
)
_DAYS = (
    "monday|tuesday|wednesday|thursday|friday|saturday|sunday|montag|dienstag|mittwoch|donnerstag"
    "|freitag|samstag|sonntag|today|tomorrow|tonight|heute|übermorgen|next week|nächste woche"
)
_EXTENSIONS = (
    "py|ipynb|txt|md|csv|tsv|json|jsonl|ya?ml|toml|ini|cfg|conf|log|pdf|docx?|xlsx?|pptx?|html?|css"
    "|jsx?|tsx?|java|c|h|cpp|rs|go|rb|sh|sql|db|sqlite|parquet|png|jpe?g|gif|svg|webp|mp3|mp4|wav|zip"
    "|tar|gz|xml|env|lock|odt|key"
)
_CURRENCY = r"€|\$|£|EUR\b|USD\b|GBP\b|CHF\b|euros?\b|dollars?\b|pounds?\b|francs?\b|Franken\b"
_DATES = (
    r"\d{4}-\d{2}-\d{2}",
    r"\d{1,2}\.\d{1,2}\.(?:\d{2,4})?",
    r"\d{1,2}/\d{1,2}/\d{2,4}",
    rf"(?:the )?\d{{1,2}}(?:st|nd|rd|th|\.)? (?:of )?(?:{_MONTHS})\b(?: \d{{4}})?",
    rf"(?:{_MONTHS})\.? \d{{1,2}}(?:st|nd|rd|th)?\b(?:,? \d{{4}})?",
    rf"(?:{_DAYS})\b",
)
_TIME = r"\b\d{1,2}:\d{2}(?:\s?[ap]m)?\b|\b\d{1,2}\s?(?:[ap]m|Uhr)\b"
PATTERNS = (
    ("title", re.compile(r"[\"“„«](?=\w)([^\"“”„«»\n]{1,70}?)[\"”“»]")),
    ("file", re.compile(rf"(?<![\w/@])[\w./~\\-]*[\w-]\.(?:{_EXTENSIONS})\b(?![\w.]*@)")),
    ("thing", re.compile(r"https?://\S+[\w/]|(?<![\w.+-])[\w.+-]+@[\w-]+\.[\w.]+\w")),
    ("price", re.compile(rf"[$€£]\s?{_NUMBER}|{_NUMBER}\s?(?:{_CURRENCY})", re.IGNORECASE)),
    ("date", re.compile(rf"\b(?:{'|'.join(_DATES)})", re.IGNORECASE)),
    ("time", re.compile(_TIME, re.IGNORECASE)),
)


def values_in(text: str) -> Iterator[tuple[int, int, Found]]:
    """Yield the values of a text with where they stand; none overlaps another."""
    taken: list[tuple[int, int]] = []
    for type, pattern in PATTERNS:
        for found in pattern.finditer(text):
            start, end = found.span()
            if any(start < stop and begin < end for begin, stop in taken):
                continue
            taken.append((start, end))
            words = tuple(content_words(found.group()))
            yield start, end, _value(found.group().strip(), type, start, words)


def _value(text: str, type: str, start: int, words: tuple[str, ...]) -> Found:
    if type == "title":
        title = text[1:-1].strip(" .,")
        head = words[-1] if words else ""
        return Found(title, "thing", start, words, head, "name", "singular", is_definite=True)
    if type != "file":
        return Found(text, type, start, words, form="value", number="singular")
    name = content_words(re.sub(r"\.\w+$", "", text.replace("\\", "/").rpartition("/")[2]))
    head = name[-1] if name else ""
    return Found(
        text, type, start, words, head=head, form="name", number="singular", is_definite=True
    )


# What things measure

_RATED = r"(?:rated|rating:?|bewertung:?|note:?)"
_MEASURES = tuple(
    (name, re.compile(pattern, re.IGNORECASE))
    for name, pattern in (
        ("price", rf"[$€£]\s?({_NUMBER})|({_NUMBER})\s?(?:{_CURRENCY})"),
        (
            "rating",
            rf"({_NUMBER})\s?(?:/\s?(?:5|10)\b|stars?\b|sterne?n?\b|★)|{_RATED}\s?({_NUMBER})",
        ),
        ("distance", rf"({_NUMBER})\s?(?:km|kilometers?|miles?|mi|kilometer)\b"),
        ("meters", rf"({_NUMBER})\s?(?:m|meters?|metres?|metern?)\b"),
        ("size", rf"({_NUMBER})\s?(?:[KMGT]B)\b"),
        ("weight", rf"({_NUMBER})\s?(?:kg|g|lbs?|gramm|kilo)\b"),
        ("area", rf"({_NUMBER})\s?(?:m²|m2|qm|sqm|sq ?ft)"),
        ("percent", rf"({_NUMBER})\s?%"),
        ("pages", rf"({_NUMBER})\s?(?:pages?|seiten?|lines?|zeilen?|rows?)\b"),
    )
)
_DURATION = re.compile(
    r"(?:(\d+)\s?(?:h|hrs?|hours?|std\.?|stunden?)\b\s?(?:and |und )?)?"
    r"(?:(\d+)\s?(?:m|min\.?|mins|minutes?|minuten?)\b)?",
    re.IGNORECASE,
)
_CLOCK = re.compile(r"\b(\d{1,2}):(\d{2})\s?([ap]m)?|\b(\d{1,2})\s?([ap]m|Uhr)\b", re.IGNORECASE)
_ISO = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b")
_YEAR = re.compile(r"\b((?:19|20)\d{2})\b")
_SCALE = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}

_FIELDS = {
    "price": "price cost fare amount total preis kosten betrag fee rent miete salary gehalt",
    "rating": "rating stars score bewertung note",
    "distance": "distance entfernung km miles",
    "minutes": "duration dauer minutes minuten length",
    "clock": "departure arrival time start departs departure_time abfahrt ankunft uhrzeit begin",
    "date": "date datum day created modified updated due published",
    "size": "size bytes größe",
    "weight": "weight gewicht",
    "pages": "pages lines rows seiten",
    "year": "year jahr",
}
_FIELD_OF = {word: measure for measure, words in _FIELDS.items() for word in words.split()}


@lru_cache(maxsize=8192)
def _measures(text: str) -> tuple[tuple[str, float], ...]:
    found: dict[str, float] = {}
    for name, pattern in _MEASURES:
        match = pattern.search(text)
        if match is not None:
            number = number_of(next(group for group in match.groups() if group))
            found[name] = number * _scale(name, match.group())
    if "meters" in found:
        found.setdefault("distance", found["meters"] / 1000)
    minutes = _minutes(text)
    if minutes:
        found["minutes"] = minutes
    return tuple({**found, **dict(_moments(text))}.items())


def measures_in(text: str) -> Mapping[str, float]:
    """Return what a line says that something measures, in one unit each."""
    return dict(_measures(text))


def field_measures(fields: Mapping[str, object]) -> Mapping[str, float]:
    """Return what a record says that something measures, by the names of its fields."""
    found: dict[str, float] = {}
    for name, value in fields.items():
        measure = next(
            (_FIELD_OF[part] for part in name.lower().split("_") if part in _FIELD_OF), ""
        )
        if isinstance(value, int | float) and not isinstance(value, bool):
            found.setdefault(measure or name.lower(), float(value))
        elif isinstance(value, str):
            said = measures_in(value)
            if measure in said:
                found.setdefault(measure, said[measure])
            for each, number in said.items():
                found.setdefault(each, number)
    return found


def number_of(text: str) -> float:
    """Return the number that a text is: 1,299.50 and 1.299,50 are the same."""
    whole, mark, rest = text.rpartition("," if text.rfind(",") > text.rfind(".") else ".")
    if not mark:
        return float(text)
    digits = whole.replace(",", "").replace(".", "")
    is_thousands = len(rest) == 3 and (mark == "," or "." in whole or len(whole) <= 3)
    return float(digits + rest) if is_thousands else float(f"{digits}.{rest}")


def _scale(name: str, text: str) -> float:
    if name == "size":
        return _SCALE[text.strip()[-2].lower()]
    if name == "weight" and re.search(r"\d\s?(?:g|gramm)$", text):
        return 0.001
    if name == "distance" and "mi" in text.lower():
        return 1.609
    return 1.0


def _minutes(text: str) -> float:
    for found in _DURATION.finditer(text):
        hours, minutes = found.groups()
        if hours or (minutes and not found.group().rstrip().endswith("m")) or (hours and minutes):
            return 60 * float(hours or 0) + float(minutes or 0)
    return 0.0


def _moments(text: str) -> Iterator[tuple[str, float]]:
    date = _ISO.search(text)
    if date is not None:
        year, month, day = map(int, date.groups())
        yield "date", year * 372.0 + month * 31 + day
    year_found = _YEAR.search(text)
    if year_found is not None:
        yield "year", float(year_found.group())
    clock = _CLOCK.search(text)
    if clock is not None:
        hour, minute, half, bare, suffix = clock.groups()
        value = int(hour or bare) * 60 + int(minute or 0)
        is_late = (half or suffix or "").lower() == "pm" and int(hour or bare) < 12
        yield "clock", float(value + (720 if is_late else 0))
