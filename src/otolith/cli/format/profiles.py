"""Profiles as text and JSON: preferences, evidence, changes, doubts, purposes, settings, receipts.

JSON objects that programs read; times are microseconds since 1970, null where there is none:

    preference      key, value, basis, confidence, since, context, runner_up (value, confidence)
    evidence        kind, value, weight, time, source, purpose, context, quote, id; of an
                    explanation also commit, counts
    change          key, context, old, new, time, basis, evidence (a list)
    contradiction   key, context, values, question, evidence (a list)
    setting         name, type, default, choices, about, value, basis
    purpose         name, allowed, consent, since, retention_seconds, about
    learned         messages, learned (evidence with its key), refused (key, reason, message,
                    purpose), contradictions
    prompt          text, tokens, preferences, left_out
    receipt         when, refs, sessions, kept_sessions, erased, residue

Values in them are written by `values.to_json`, so that `otolith profile set` can read them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from otolith.care import ErasureReceipt
from otolith.cli.errors import in_commands
from otolith.cli.format.history import format_time, plural, screen_width
from otolith.cli.format.values import one_line, to_json
from otolith.cli.terminal import escape, pick, table
from otolith.profiles import (
    Contradiction,
    Evidence,
    EvidenceLine,
    Learned,
    Preference,
    PreferenceChange,
    ProfilePrompt,
    Purpose,
    Purposes,
    RunnerUp,
    Setting,
)

_EPOCH = datetime.fromtimestamp(0, UTC)
_BASIS_COLOURS = {"set": "green", "learned": "yellow"}
_VALUE_LETTERS = 60  # of a value in a table with several columns
_QUOTE_LETTERS = 100


def _bold(text: str) -> str:
    return click.style(escape(text), bold=True)


def _microseconds(time: datetime | None) -> int | None:
    return None if time is None else (time - _EPOCH) // timedelta(microseconds=1)


def _share(confidence: float) -> str:
    return f"{confidence:.0%}"


def _value(value: object) -> str:
    return one_line(value, _VALUE_LETTERS)


def headed_table(rows: Iterable[list[str]]) -> list[str]:
    """Return a table whose first row is its heading."""
    heading, *lines = table(list(rows))
    return [click.style(heading, dim=True), *lines]


# Preferences


def preference_line(found: Preference) -> str:
    """Return what holds for a key on one line: the value, its basis, and what comes next."""
    where = f" ({escape(found.context)})" if found.context else ""
    if found.basis == "default" and found.value is None:
        return f"{_bold(found.key)}{where}: no preference"
    value = one_line(found.value, max(40, screen_width() - 40))
    sure = f", {_share(found.confidence)}" if found.basis == "learned" else ""
    return f"{_bold(found.key)}{where}: {value}, {_basis(found.basis)}{sure}{_then(found)}"


def _then(found: Preference) -> str:
    runner = found.runner_up
    return "" if runner is None else f"; then {_value(runner.value)}, {_share(runner.confidence)}"


def _basis(basis: str) -> str:
    return click.style(basis, fg=_BASIS_COLOURS.get(basis))


def preference_rows(found: Iterable[Preference]) -> Iterator[list[str]]:
    """Yield preferences as rows of a table, with a heading."""
    yield ["preference", "value", "basis", "sure", "since", "when"]
    for each in found:
        since = _microseconds(each.since)
        yield [
            _bold(each.key),
            _value(each.value),
            _basis(each.basis),
            _share(each.confidence) if each.basis == "learned" else "",
            "" if since is None else format_time(since),
            escape(each.context),
        ]


def preference_json(found: Preference) -> dict[str, Any]:
    """Return a preference as JSON data."""
    return {
        **pick(found, "key", "basis", "confidence", "context"),
        "value": to_json(found.value),
        "since": _microseconds(found.since),
        "runner_up": _runner_json(found.runner_up),
    }


def _runner_json(runner: RunnerUp | None) -> dict[str, Any] | None:
    if runner is None:
        return None
    return {"value": to_json(runner.value), "confidence": runner.confidence}


# Evidence


def evidence_rows(lines: Iterable[EvidenceLine]) -> Iterator[list[str]]:
    """Yield pieces of evidence as rows of a table: when, what, how much it counts, and from where.

    The commit is the last column; it is empty if it was not asked for.
    """
    for each, commit, counts in lines:
        said = [
            f"when: {escape(each.context)}" if each.context else "",
            one_line(each.quote, _QUOTE_LETTERS) if each.quote else "",
            f"from {escape(each.source)}" if each.source else "",
            f"for {escape(each.purpose)}" if each.purpose != "learning" else "",
            "" if counts else click.style("(not used)", dim=True),
        ]
        yield [
            format_time(each.time),
            str(each.kind),
            "" if each.kind == "unset" else _value(each.value),
            "" if each.is_explicit else f"{each.weight:+g}",
            "  ".join(filter(None, said)),
            click.style(commit[:10], fg="yellow") if commit else "",
        ]


def evidence_json(found: Evidence) -> dict[str, Any]:
    """Return a piece of evidence as JSON data, without its key."""
    names = ("weight", "time", "source", "purpose", "context", "quote", "id")
    return {"kind": str(found.kind), "value": to_json(found.value), **pick(found, *names)}


def explained_json(line: EvidenceLine) -> dict[str, Any]:
    """Return a piece of evidence with its commit, and whether it counts, as JSON data."""
    return evidence_json(line.evidence) | {"commit": line.commit or None, "counts": line.counts}


# Changes and doubts


def change_rows(changes: Iterable[PreferenceChange]) -> Iterator[list[str]]:
    """Yield changes of preferences as rows of a table."""
    for each in changes:
        old = "nothing" if each.old is None else _value(each.old)
        new = "nothing" if each.new is None else _value(each.new)
        count = f"{plural(len(each.evidence), 'piece')} of evidence"
        about = [
            count if each.basis == "learned" else "",
            f"when: {escape(each.context)}" if each.context else "",
        ]
        yield [
            format_time(each.time),
            _bold(each.key),
            f"{old} -> {new}",
            _basis(each.basis) if each.new is not None or each.basis != "set" else "unset",
            "  ".join(filter(None, about)),
        ]


def change_json(change: PreferenceChange) -> dict[str, Any]:
    """Return a change of a preference as JSON data."""
    return {
        **pick(change, "key", "context", "time", "basis"),
        "old": to_json(change.old),
        "new": to_json(change.new),
        "evidence": [evidence_json(each) for each in change.evidence],
    }


def contradiction_json(doubt: Contradiction) -> dict[str, Any]:
    """Return what to ask the user as JSON data."""
    return {
        **pick(doubt, "key", "context", "question"),
        "values": [to_json(each) for each in doubt.values],
        "evidence": [evidence_json(each) for each in doubt.evidence],
    }


# Learned from a conversation


def learned_lines(found: Learned) -> Iterator[str]:
    """Yield what was learned from a conversation, what was not, and what to ask."""
    count = plural(len(found.evidence), "statement")
    yield f"{count} from {plural(found.messages, 'message')}"
    rows = [
        [
            "+" if each.weight > 0 else "-",
            _bold(each.key),
            _value(each.value),
            f"when: {escape(each.context)}" if each.context else "",
            one_line(each.quote, _QUOTE_LETTERS),
        ]
        for each in found.evidence
    ]
    yield from (f"  {line}" for line in table(rows))
    yield from (f"  not learned: {escape(in_commands(str(each)))}" for each in found.refused)
    yield from (f"  ask: {escape(each.question)}" for each in found.contradictions)


def learned_json(found: Learned) -> dict[str, Any]:
    """Return what was learned from a conversation as JSON data."""
    return {
        "messages": found.messages,
        "learned": [{"key": each.key, **evidence_json(each)} for each in found.evidence],
        "refused": [pick(each, "key", "reason", "message", "purpose") for each in found.refused],
        "contradictions": [contradiction_json(each) for each in found.contradictions],
    }


# Settings and purposes


def setting_rows(settings: Iterable[Setting]) -> Iterator[list[str]]:
    """Yield declared settings as rows of a table, with a heading."""
    yield ["setting", "value", "basis", "possible", "what it is"]
    for each in settings:
        choices = ", ".join(map(one_line, each.choices))
        yield [
            _bold(each.name),
            _value(each.value),
            _basis(each.basis),
            choices or each.type,
            escape(each.about),
        ]


def setting_json(setting: Setting) -> dict[str, Any]:
    """Return a declared setting as JSON data."""
    return {
        **pick(setting, "name", "type", "about", "basis"),
        **{name: to_json(getattr(setting, name)) for name in ("default", "value")},
        "choices": [to_json(each) for each in setting.choices],
    }


def purpose_rows(purposes: Iterable[Purpose]) -> Iterator[list[str]]:
    """Yield purposes as rows of a table, with a heading."""
    yield ["purpose", "allowed", "the user", "since", "used for", "what it is"]
    for each in purposes:
        allowed = click.style("yes", fg="green") if each.allowed else click.style("no", fg="red")
        yield [
            _bold(each.name),
            allowed,
            _answer(each),
            "" if each.since is None else format_time(each.since),
            duration_text(each.retention_seconds),
            escape(each.about),
        ]


def _answer(purpose: Purpose) -> str:
    if purpose.consent is None:
        return "was not asked"
    return "agreed" if purpose.consent else "did not agree"


def purpose_line(user: str, purpose: Purpose) -> str:
    """Return what a purpose is allowed, and for how long, on one line."""
    name = "agreed" if purpose.consent else "did not agree"
    said = f"was not asked about {_bold(purpose.name)}"
    if purpose.consent is not None:
        said = f"{name} to {_bold(purpose.name)}"
    use = "is used" if purpose.allowed else "is neither stored nor used"
    kept = duration_text(purpose.retention_seconds)
    time = f" for {kept}" if purpose.allowed and purpose.retention_seconds is not None else ""
    return f"{escape(user)} {said}: evidence for it {use}{time}."


def duration_text(seconds: float | None) -> str:
    """Return a time of retention as it is typed: 90d, 12h, forever."""
    if seconds is None:
        return "forever"
    units = (("d", 86_400), ("h", 3_600), ("m", 60))
    exact = next(((unit, size) for unit, size in units if seconds % size == 0), ("s", 1))
    return f"{seconds / exact[1]:g}{exact[0]}"


def purpose_json(purpose: Purpose) -> dict[str, Any]:
    """Return a purpose as JSON data."""
    return pick(purpose, "name", "allowed", "consent", "since", "retention_seconds", "about")


def consent_lines(purposes: Purposes) -> Iterator[str]:
    """Yield which purposes the user has decided about."""
    for word, agrees in (("Agreed to", True), ("Did not agree to", False)):
        names = [each.name for each in purposes.values() if each.consent is agrees]
        if names:
            yield f"{word}: {escape(', '.join(names))}"


# Prompts and receipts


def prompt_json(prompt: ProfilePrompt) -> dict[str, Any]:
    """Return what a model is told as JSON data."""
    return {
        **pick(prompt, "text", "tokens"),
        "preferences": [preference_json(each) for each in prompt.preferences],
        "left_out": [preference_json(each) for each in prompt.left_out],
    }


def receipt_lines(user: str, receipt: ErasureReceipt) -> Iterator[str]:
    """Yield what was erased of a user, and what may be left."""
    count = plural(receipt.refs, "branch, stash or tag", "branches, stashes and tags")
    yield f"{escape(user)} is erased, and stays erased: {count} removed."
    if receipt.sessions:
        yield f"Deleted sessions: {escape(', '.join(receipt.sessions))}"
    if receipt.kept_sessions:
        yield f"Linked sessions that stay: {escape(', '.join(receipt.kept_sessions))}"
    if receipt.erased:
        yield "No file of the store has a byte of it."
    else:
        yield f"Not erased from the files: {escape(receipt.residue)}"


def receipt_json(receipt: ErasureReceipt) -> dict[str, Any]:
    """Return the receipt of an erasure as JSON data."""
    return {
        "when": _microseconds(receipt.when),
        **pick(receipt, "refs", "erased", "residue"),
        "sessions": list(receipt.sessions),
        "kept_sessions": list(receipt.kept_sessions),
    }


# A short section of the page of a user

_MOST_SHOWN = 5


def profile_section(user: str, found: Sequence[Preference]) -> Iterator[str]:
    """Yield the first preferences of a user, and the command that shows all; nothing if none."""
    if not found:
        return
    yield ""
    yield "Preferences:"
    yield from (f"  {preference_line(each)}" for each in found[:_MOST_SHOWN])
    rest = len(found) - _MOST_SHOWN
    more = f"{rest:,} more: " if rest > 0 else ""
    yield f"{more}`otolith profile show {escape(user)}` shows what is known, `why` the evidence."
