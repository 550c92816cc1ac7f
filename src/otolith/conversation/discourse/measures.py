"""Values in a text (prices, dates, files, titles) and what things measure, for comparisons.

Every measure has one unit, whatever the text uses: kilometres, kilograms, bytes, minutes. The units
and their factors are in `[measure_units]` of `words.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache

from otolith.conversation.discourse.entities import Mention
from otolith.conversation.discourse.word_lists import keys_by_word, word_table
from otolith.text.words import content_words

_NUMBER = r"(?:\d{1,3}(?:[.,]\d{3})+(?!\d)(?:[.,]\d+)?|\d+(?:[.,]\d+)?)"
_THOUSANDS = re.compile(r"[.,](?=\d{3}(?!\d))")
"""The marks that a number loses: 1,299.50 and 1.299,50 are the same."""
_AMOUNT = re.compile(
    rf"(?:(?P<before>[$€£]|rated|rating|bewertung|note):?)?\s?(?P<number>{_NUMBER})"
    r"\s?(?P<unit>[$€£%★]|/\s?(?:5|10)\b|m[²2]|[^\W\d_]+)?",
    re.IGNORECASE,
)
_CLOCK = re.compile(r"\b(\d{1,2})(?::(\d{2})\s?([ap]m)?|\s?([ap]m|Uhr))\b", re.IGNORECASE)
_ISO_DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")


@cache
def _value_patterns() -> dict[str, re.Pattern[str]]:
    """Return a pattern for each type of value; what an earlier one takes, a later one leaves."""
    listed = {name: "|".join(word_table(name).split()) for name in ("months", "days", "file_types")}
    month = f"(?:{listed['months']})"
    currency = "|".join(
        each for each in word_table("measure_units")["price"].split() if each.isalpha()
    )
    patterns = {
        "title": r"[\"“„«](?=\w)[^\"“”„«»\n]{1,70}?[\"”“»]",
        "file": rf"(?<![\w/@])[\w./~\\-]*[\w-]\.(?:{listed['file_types']})\b(?![\w.]*@)",
        "thing": r"https?://\S+[\w/]|(?<![\w.+-])[\w.+-]+@[\w-]+\.[\w.]+\w",
        "price": rf"[$€£]\s?{_NUMBER}|{_NUMBER}\s?(?:[$€£]|(?:{currency})\b)",
        "date": r"\b(?:\d{4}-\d{2}-\d{2}|\d{1,2}\.\d{1,2}\.(?:\d{2,4})?|\d{1,2}/\d{1,2}/\d{2,4}"
        rf"|(?:the )?\d{{1,2}}(?:st|nd|rd|th|\.)? (?:of )?{month}\b(?: \d{{4}})?"
        rf"|{month}\.? \d{{1,2}}(?:st|nd|rd|th)?\b(?:,? \d{{4}})?"
        rf"|(?:{listed['days']}|next week|nächste woche)\b)",
        "time": r"\b\d{1,2}:\d{2}(?:\s?[ap]m)?\b|\b\d{1,2}\s?(?:[ap]m|Uhr)\b",
    }
    return {type: re.compile(regex, re.IGNORECASE) for type, regex in patterns.items()}


def values_in(text: str) -> Iterator[tuple[int, int, Mention]]:
    """Yield the values of a text with where they begin and end; none overlaps another.

    Files and titles are names. They may be called by their last word: "the report" for report.csv.
    """
    taken: list[tuple[int, int]] = []
    for type, regex in _value_patterns().items():
        for found in regex.finditer(text):
            start, end = found.span()
            if any(start < stop and begin < end for begin, stop in taken):
                continue
            taken.append((start, end))
            value, is_name = found.group().strip(), type in ("title", "file")
            last_words = content_words(re.sub(r"^.*[/\\]|\.\w+$", "", value))[-1:]
            yield start, end, Mention(
                start=start,
                text=value[1:-1].strip(" .,") if type == "title" else value,
                type="thing" if type == "title" else type,
                form="name" if is_name else "value",
                words=tuple(content_words(value)),
                head="".join(last_words) if is_name else "",
                number="singular",
                is_definite=is_name,
            )


@lru_cache(maxsize=8192)
def measures_in(text: str) -> Mapping[str, float]:
    """Return what a line says that something measures, in one unit each; the first one counts."""
    found: dict[str, float] = {}
    for each in _AMOUNT.finditer(text):
        unit = (each["before"] or each["unit"] or "").lower().replace(" ", "")[:6]
        (key,) = keys_by_word("measure_units").get(unit, ("",))[:1]
        measure, _, factor = key.partition(" ")
        number = float(_THOUSANDS.sub("", each["number"]).replace(",", "."))
        if measure:
            found.setdefault(measure, number * float(factor or 1))
        elif re.fullmatch(r"(?:19|20)\d\d", each["number"]):
            found.setdefault("year", number)
    date, clock = _ISO_DATE.search(text), _CLOCK.search(text)
    if date is not None:
        found["date"] = float(date[0].replace("-", ""))
    if clock is not None:
        hour, is_afternoon = int(clock[1]), (clock[3] or clock[4] or "").lower() == "pm"
        found["clock"] = 60.0 * (hour + 12 * (is_afternoon and hour < 12)) + int(clock[2] or 0)
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
            found = {**measures_in(value), **found}
    return found
