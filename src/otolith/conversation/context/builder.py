"""The context builder: from a log and a budget to a context, reading only.

Rule 1: permanent messages (system messages, pinned ones, the user's last one) are always in it. A
system prompt that is given for the context stands for those that the log begins with.
Rule 2: units are in it or not as wholes, see units.py; those that are in it are the last ones.
Rule 3: nothing is done that is not needed. If all of the log fits, it is sent unchanged. If not,
huge parts are clamped; then repeated results are left out; then old ones; then a summary stands for
the oldest units; then these are dropped. The first step that is enough is the last one taken.
Rule 4: permanent messages are clamped harder before anything is refused. If even the last unit does
not fit beside them, that is an `OverBudget`.

Theory of operation. `ContextBuilder.build` is a pipeline of six steps:

    read back    messages from the end of the log, until more would not fit even if reduced
    group        messages into units (units.py)
    shrink       units, by the mildest reductions that make all of them fit (reductions.py)
    cut          if they do not: choose the first unit, and a summary for what is before it
    translate    units into the messages of a provider (provider_messages.py)
    explain      what is missing or changed, and why (context.py)

The log is read in pages that grow, so the number of messages read depends on the budget and not on
the log. Older permanent messages are read by their indices. Costs are those that were counted when
messages were appended, unless another counter is given.
"""

from __future__ import annotations

from typing import NamedTuple

from otolith.conversation.context.budget import TokenCosts, stable_cut
from otolith.conversation.context.context import (
    Context,
    MissingMessages,
    permanent_reasons,
    reduction_reasons,
)
from otolith.conversation.context.provider_messages import (
    LEFT_OUT,
    PROVIDERS,
    ProviderRequest,
    translate,
)
from otolith.conversation.context.reductions import MIN_CLAMP, Reducer
from otolith.conversation.context.source import ContextRules, MessageSource
from otolith.conversation.context.units import Reason, Unit, group_units
from otolith.conversation.message import Message, Role, Text
from otolith.conversation.summaries import LABEL, Summary, shorten_to, summarise
from otolith.conversation.token_counts import MESSAGE_OVERHEAD
from otolith.errors import Invalid, OverBudget

_FIRST_PAGE = 16
_GIVEN = -1
"""The index of a system prompt that is given for one context: before all messages of the log."""
_MAX_SUMMARY, _MIN_SUMMARY = 1024, 32
"""In tokens."""

Messages = list[tuple[int, Message]]


class _LogTail(NamedTuple):
    """The units that were read: all from an index on, and older permanent ones."""

    low: int
    units: list[Unit]
    reasons: list[Reason]

    @property
    def older(self) -> int:
        """How many units are older than the index."""
        return sum(1 for unit in self.units if unit.index < self.low)


class _Cut(NamedTuple):
    """The reduced units, the place of the first one in the window, and the summary before it."""

    units: list[Unit]
    first: int
    summary: Summary | None = None

    @property
    def permanent(self) -> list[Unit]:
        """The permanent units before the window."""
        return [unit for unit in self.units[: self.first] if unit.is_permanent]

    @property
    def window(self) -> list[Unit]:
        """The units that are sent without a gap."""
        return self.units[self.first :]

    @property
    def sent(self) -> list[Unit]:
        """All that is sent, with the summary as a message of the user."""
        summary = [] if self.summary is None else [_summary_unit(self.summary)]
        return [*self.permanent, *summary, *self.window]


class ContextBuilder:
    """Builds one context."""

    def __init__(self, source: MessageSource, rules: ContextRules) -> None:
        """Prepare a context of a log.

        Raises:
            Invalid: the provider is unknown, or a number is out of range.
        """
        _check_rules(rules)
        self._source = source
        self._rules = rules
        self._costs = TokenCosts(rules, source)
        self._room = rules.budget - rules.tools_tokens
        if rules.for_ == "anthropic":  # a request may have to begin with this message
            overhead = rules.counter.count(LEFT_OUT) + MESSAGE_OVERHEAD
            self._room -= self._costs.scale(0, overhead)
        self._reducer = Reducer(rules, self._costs, self._room)
        self._failures: list[Reason] = []
        self._replaced = 0 if rules.system is None else source.prompt_length
        """How many messages at the beginning another system prompt stands for."""

    def build(self) -> Context:
        """Return the context.

        Raises:
            OverBudget: the permanent messages do not fit.
        """
        low, messages = self._read_back()
        tail = self._group(low, messages)
        reduced = self._reducer.fit(tail.units) if low == 0 else None
        cut = self._cut(tail) if reduced is None else _Cut(reduced, 0)
        request = self._translate(cut)
        return self._explain(tail, cut, request)

    # Read back and group

    def _read_back(self) -> tuple[int, Messages]:
        """Read messages from the end until more would not fit, whatever is done to them."""
        low, size, minimum = self._source.length, _FIRST_PAGE, 0
        messages: Messages = []
        while low > 0 and (minimum <= self._room or not messages):
            start = max(low - size, 0)
            page = list(enumerate(self._source.read(start, low), start))
            messages = [*page, *messages]
            limit = self._reducer.limit
            minimum += sum(self._costs.minimum(at, each, limit) for at, each in page)
            needed = (self._room - minimum) * len(messages) // max(minimum, 1)
            low, size = start, min(max(needed, _FIRST_PAGE), 4 * len(messages))
        return low, messages

    def _group(self, low: int, messages: Messages) -> _LogTail:
        """Group messages into units, and mark the permanent ones."""
        source, last_user = self._source, self._source.last_user
        if last_user is None:  # a list of messages has one if any of those that were read is
            users = (at for at, each in reversed(messages) if each.role is Role.USER)
            last_user = next(users, None)
        permanent = set(source.permanent) | ({last_user} if last_user is not None else set())
        older = [(at, source.read(at, at + 1)[0]) for at in sorted(permanent) if at < low]
        prompt = self._rules.system
        if prompt is not None:
            older = [each for each in older if each[0] >= self._replaced]
            messages = [each for each in messages if each[0] >= self._replaced]
            older[:0] = [(_GIVEN, prompt)] if prompt.parts else []
            permanent.add(_GIVEN)
        units, reasons = group_units([*older, *messages])
        for unit in units:
            kept = [at for at, _ in unit.messages() if at in permanent]
            unit.is_permanent = bool(kept)
            unit.is_last_user = kept == [last_user] and last_user not in source.permanent
        return _LogTail(low, units, reasons)

    # Cut

    def _cut(self, tail: _LogTail) -> _Cut:
        """Choose the unit to begin with; older ones are dropped, or replaced by a summary."""
        units = self._reduce_to_fit(tail)
        if tail.older == len(units):
            return _Cut(units, len(units))
        wants_summary = self._rules.summariser is not None or self._source.has_summaries
        reserve = min(self._room // 6, _MAX_SUMMARY) if wants_summary else 0
        cut = self._cut_with_summary(tail, units, reserve) if reserve > _MIN_SUMMARY else None
        return cut or _Cut(units, stable_cut(units, *self._bounds(tail, units, 0)))

    def _reduce_to_fit(self, tail: _LogTail) -> list[Unit]:
        """Clamp harder until the last units fit beside the permanent ones; at least one must."""
        limit, keep = self._reducer.limit, max(self._rules.keep_last, 1)
        units = self._reducer.reduce(tail.units, limit)
        while self._minimum(units, keep) > self._room and limit > MIN_CLAMP:
            limit = max(limit // 2, MIN_CLAMP)
            units = self._reducer.reduce(tail.units, limit)
        needed = self._minimum(units, 1)
        if needed > self._room:
            needed += self._rules.budget - self._room
            raise OverBudget(
                f"a context of {self._rules.budget:,} tokens: system messages, pinned messages,"
                f" tools and the last messages take {needed:,}",
                budget=self._rules.budget,
                needed=needed,
                hint="give a larger budget, unpin messages, or shorten the system prompt",
            )
        return units

    def _minimum(self, units: list[Unit], keep: int) -> int:
        """Return the tokens of the last units and of all permanent ones before them."""
        permanent = [unit for unit in units[:-keep] if unit.is_permanent]
        return self._costs.total(permanent) + self._costs.total(units[-keep:])

    def _bounds(self, tail: _LogTail, units: list[Unit], reserve: int) -> tuple[int, int]:
        """Return the first place from which everything fits, and the last place to begin with."""
        permanent = [unit for unit in units if unit.is_permanent]
        left = self._room - reserve - self._costs.total(permanent)
        enough = left * (1 - self._rules.slack)
        keep = max(self._rules.keep_last, 1)
        first, last, used = len(units) - 1, None, 0
        for place in range(len(units) - 1, tail.older - 1, -1):
            used += 0 if units[place].is_permanent else self._costs.unit(units[place])
            if used > left and place < len(units) - 1:
                break
            first = place
            if last is None and used >= enough and len(units) - place >= keep:
                last = place
        return first, first if last is None else last

    def _cut_with_summary(self, tail: _LogTail, units: list[Unit], reserve: int) -> _Cut | None:
        """Return a cut with a summary of what is before it, if one is stored or can be made."""
        if self._minimum(units, 1) + reserve > self._room:
            return None
        first, last = self._bounds(tail, units, reserve)
        summary = self._source.find_summary(units[first].index, units[last].index)
        if summary is not None:
            stop = summary.stop
            place = next(at for at in range(first, last + 1) if units[at].index >= stop)
        else:
            place = stable_cut(units, first, last)
            summary = self._new_summary(units[place].index)
        short = None if summary is None else self._shorten_summary(summary, reserve)
        return None if short is None else _Cut(units, place, short)

    def _shorten_summary(self, summary: Summary, reserve: int) -> Summary | None:
        """Return a summary that fits into the reserve; None if nothing of it does."""
        around = MESSAGE_OVERHEAD + self._costs.counter.count(LABEL)
        room = self._costs.unscale(reserve) - around
        short = summary._replace(text=shorten_to(summary.text, max(room, 1)))
        while short.text and self._costs.unit(_summary_unit(short)) > reserve:
            # another counter than the estimate, or another factor just there
            short = short._replace(text=short.text[: len(short.text) * 3 // 4])
        return short if short.text.strip() else None

    def _new_summary(self, stop: int) -> Summary | None:
        """Return a new summary; a summariser that fails is a reason, not an error."""
        summariser, source = self._rules.summariser, self._source
        if summariser is None or stop == 0:
            return None
        before = source.last_summary(stop)
        start = 0 if before is None else before.stop
        try:
            messages = list(map(source.load_files, source.read(start, stop)))
            summary = summarise(summariser, messages, before, stop)
        except Exception as error:  # noqa: BLE001  # whatever a model or its network may raise
            self._failures.append(Reason(start, stop, "dropped", f"no summary: {error!r}"))
            return None
        source.put_summary(summary)
        return summary

    # Translate and explain

    def _translate(self, cut: _Cut) -> ProviderRequest:
        """Return the units of a cut as the provider wants them."""
        load = self._source.load_files
        groups = [[load(message) for _, message in unit.messages()] for unit in cut.sent]
        return translate(groups, self._rules.for_)

    def _explain(self, tail: _LogTail, cut: _Cut, request: ProviderRequest) -> Context:
        """Return the context, with the reasons for all that is missing or changed."""
        window, units, overhead = cut.window, cut.sent, self._rules.budget - self._room
        start = window[0].index if window and (cut.first or tail.low) else tail.low
        unsent = [unit for unit in cut.units[: cut.first] if not unit.is_permanent]
        missing = MissingMessages.of([*cut.permanent, *window], unsent, start, self._replaced)
        dropped = missing.indices()
        indices = [at for unit in units for at, _ in unit.messages()]
        losses = sorted({(indices[place], why) for place, why in request.losses.items()})
        losses = [each for each in losses if each[0] != _GIVEN]
        changes = sorted([*tail.reasons, *reduction_reasons(tail.units, cut.units)])
        return Context(
            messages=request.messages,
            tokens=self._costs.total(units) + overhead,
            budget=self._rules.budget,
            for_=self._rules.for_,
            dropped=dropped,
            why=(
                *self._failures,
                *missing.reasons(is_summarised=cut.summary is not None),
                *permanent_reasons(cut.permanent, start),
                *(each for each in changes if each.start not in dropped),
                *(Reason(at, at + 1, "foreign", why) for at, why in losses),
            ),
            system=request.system,
            start=start,
            stop=self._source.length,
            estimate=self._costs.unscaled_total(units) + overhead,
            summary="" if cut.summary is None else cut.summary.text,
        )


def _check_rules(rules: ContextRules) -> None:
    """Check the arguments of a context."""
    if rules.for_ not in PROVIDERS:
        raise Invalid(f"unknown provider {rules.for_!r}", hint=f"use one of {', '.join(PROVIDERS)}")
    for name in ("budget", "tools_tokens", "keep_last", "keep_results"):
        count = getattr(rules, name)
        if type(count) is not int or count < 0:
            raise Invalid(f"{name} must be 0 or more, got {count!r}", hint="give a whole number")
    if not 0 <= rules.slack < 1:
        raise Invalid(f"slack must be from 0 to below 1, got {rules.slack!r}", hint="give a share")


def _summary_unit(summary: Summary) -> Unit:
    """Return a summary as a message of the user."""
    message = Message(Role.USER, (Text(LABEL + summary.text),))
    return Unit(summary.stop, [(summary.stop, message)])
