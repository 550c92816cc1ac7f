"""Values in a text (prices, dates, files, titles) and what things measure, for comparisons.

Every measure has one unit, whatever the text uses: kilometres, kilograms, bytes, minutes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from otolith.conversation.discourse.entities import Mention
from otolith.conversation.discourse.word_lists import keys_by_word
from otolith.text.words import content_words

_NUMBER = r"\d+(?:[.,]\d+)*"
_MONTH = (
    "(?:jan(?:uary|uar)?|feb(?:ruary|ruar)?|mar(?:ch)?|mär(?:z)?|apr(?:il)?|may|mai|june?|juni"
    "|july?|juli|aug(?:ust)?|sep(?:t(?:ember)?)?|o[ck]t(?:ober)?|nov(?:ember)?|de[cz](?:ember)?)"
)
_DAY = (
    "monday|tuesday|wednesday|thursday|friday|saturday|sunday|montag|dienstag|mittwoch|donnerstag"
    "|freitag|samstag|sonntag|today|tomorrow|tonight|heute|übermorgen|next week|nächste woche"
)
_EXTENSION = (
    "py|ipynb|txt|md|csv|tsv|json|jsonl|ya?ml|toml|ini|cfg|conf|log|pdf|docx?|xlsx?|pptx?|html?|css"
    "|jsx?|tsx?|java|c|h|cpp|rs|go|rb|sh|sql|db|sqlite|parquet|png|jpe?g|gif|svg|webp|mp3|mp4|wav"
    "|zip|tar|gz|xml|env|lock|odt|key"
)
_CURRENCY = r"(?:€|\$|£|EUR\b|USD\b|GBP\b|CHF\b|euros?\b|dollars?\b|pounds?\b|francs?\b|Franken\b)"
_VALUES = {
    "title": r"[\"“„«](?=\w)[^\"“”„«»\n]{1,70}?[\"”“»]",
    "file": rf"(?<![\w/@])[\w./~\\-]*[\w-]\.(?:{_EXTENSION})\b(?![\w.]*@)",
    "thing": r"https?://\S+[\w/]|(?<![\w.+-])[\w.+-]+@[\w-]+\.[\w.]+\w",
    "price": rf"[$€£]\s?{_NUMBER}|{_NUMBER}\s?{_CURRENCY}",
    "date": rf"\b(?:\d{{4}}-\d{{2}}-\d{{2}}|\d{{1,2}}\.\d{{1,2}}\.(?:\d{{2,4}})?"
    rf"|\d{{1,2}}/\d{{1,2}}/\d{{2,4}}"
    rf"|(?:the )?\d{{1,2}}(?:st|nd|rd|th|\.)? (?:of )?{_MONTH}\b(?: \d{{4}})?"
    rf"|{_MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?\b(?:,? \d{{4}})?|(?:{_DAY})\b)",
    "time": r"\b\d{1,2}:\d{2}(?:\s?[ap]m)?\b|\b\d{1,2}\s?(?:[ap]m|Uhr)\b",
}
_VALUE_PATTERNS = {type: re.compile(regex, re.IGNORECASE) for type, regex in _VALUES.items()}
"""In order: what an earlier pattern has taken, a later one leaves alone."""

_UNITS = {
    "price": rf"[$€£]\s?({_NUMBER})|({_NUMBER})\s?{_CURRENCY}",
    "rating": rf"({_NUMBER})\s?(?:/\s?(?:5|10)\b|stars?\b|sterne?n?\b|★)"
    rf"|(?:rated|rating:?|bewertung:?|note:?)\s?({_NUMBER})",
    "distance": rf"({_NUMBER})\s?(?P<unit>km|kilometers?|kilometer|miles?|mi|m|meters?|metres?"
    r"|metern?)\b",
    "size": rf"({_NUMBER})\s?(?P<unit>[KMGT]B)\b",
    "weight": rf"({_NUMBER})\s?(?P<unit>kg|g|lbs?|gramm|kilo)\b",
    "area": rf"({_NUMBER})\s?(?:m²|m2|qm|sqm|sq ?ft)",
    "percent": rf"({_NUMBER})\s?%",
    "pages": rf"({_NUMBER})\s?(?:pages?|seiten?|lines?|zeilen?|rows?)\b",
    "year": r"\b((?:19|20)\d{2})\b",
}
_UNIT_PATTERNS = {name: re.compile(regex, re.IGNORECASE) for name, regex in _UNITS.items()}
_SCALES = {
    "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "g": 0.001, "gramm": 0.001,
    "mi": 1.609, "mile": 1.609, "miles": 1.609,
    "m": 0.001, "meter": 0.001, "metern": 0.001, "meters": 0.001, "metre": 0.001, "metres": 0.001,
}  # fmt: skip
_DURATION = re.compile(
    r"(?:(\d+)\s?(?:h|hrs?|hours?|std\.?|stunden?)\b\s?(?:and |und )?)?"
    r"(?:(\d+)\s?(m|min\.?|mins|minutes?|minuten?)\b)?",
    re.IGNORECASE,
)
_CLOCK = re.compile(r"\b(\d{1,2}):(\d{2})\s?([ap]m)?|\b(\d{1,2})\s?([ap]m|Uhr)\b", re.IGNORECASE)
_ISO_DATE = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b")


def values_in(text: str) -> Iterator[tuple[int, int, Mention]]:
    """Yield the values of a text with where they begin and end; none overlaps another."""
    taken: list[tuple[int, int]] = []
    for type, pattern in _VALUE_PATTERNS.items():
        for found in pattern.finditer(text):
            start, end = found.span()
            if not any(start < stop and begin < end for begin, stop in taken):
                taken.append((start, end))
                yield start, end, _value(found.group().strip(), type, start)


def _value(text: str, type: str, start: int) -> Mention:
    words, named = tuple(content_words(text)), text
    if type == "title":
        type, text = "thing", text[1:-1].strip(" .,")
    elif type == "file":
        named = re.sub(r"\.\w+$", "", text.replace("\\", "/").rpartition("/")[2])
    else:
        return Mention(
            start=start, text=text, type=type, form="value", words=words, number="singular"
        )
    head = (content_words(named) or [""])[-1]
    return Mention(
        start=start,
        text=text,
        type=type,
        form="name",
        words=words,
        head=head,
        number="singular",
        is_definite=True,
    )


@lru_cache(maxsize=8192)
def measures_in(text: str) -> Mapping[str, float]:
    """Return what a line says that something measures, in one unit each."""
    found: dict[str, float] = {}
    for name, pattern in _UNIT_PATTERNS.items():
        match = pattern.search(text)
        if match is not None:
            unit = (match.groupdict().get("unit") or "").lower()
            digits = next(each for each in match.groups() if each)
            found[name] = number_of(digits) * _SCALES.get(unit, 1.0)
    for match in _DURATION.finditer(text):
        hours, minutes, unit = match.groups()
        if hours or (minutes and unit.lower() != "m"):  # "300 m" is a distance
            found["minutes"] = 60 * float(hours or 0) + float(minutes or 0)
            break
    date = _ISO_DATE.search(text)
    if date is not None:
        year, month, day = map(int, date.groups())
        found["date"] = year * 372.0 + month * 31 + day
    clock = _CLOCK.search(text)
    if clock is not None:
        hour, minute, half, bare, suffix = clock.groups()
        is_afternoon = (half or suffix or "").lower() == "pm" and int(hour or bare) < 12
        found["clock"] = float(int(hour or bare) * 60 + int(minute or 0) + 720 * is_afternoon)
    return found


def field_measures(fields: Mapping[str, object]) -> Mapping[str, float]:
    """Return what a record says that something measures, by the names of its fields."""
    found: dict[str, float] = {}
    known = keys_by_word("measure_fields")
    for name, value in fields.items():
        measure = next((known[part][0] for part in name.lower().split("_") if part in known), "")
        if isinstance(value, int | float) and not isinstance(value, bool):
            found.setdefault(measure or name.lower(), float(value))
        elif isinstance(value, str):
            for each, number in measures_in(value).items():
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
