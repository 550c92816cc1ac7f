"""The projection: from a log and a budget to a context, reading only.

Rule 1: what stays (system messages, what was pinned, what the user said last) is always in it.
Rule 2: units are in it or not as wholes, see units.py; those that are in it are the last ones.
Rule 3: nothing is done that is not needed. If all of the log fits, it is sent as it is. If not,
huge parts are clamped; then repeated results are left out; then old ones; then a summary stands for
the oldest units; then these are just dropped. Nothing after the first that is enough is done.
Rule 4: what must stay is clamped harder before anything is refused. If even the last unit does not
fit beside what stays, that is an `OverBudget`.

Theory of operation. The log is read from its end, in pieces that grow, until what was read would
not fit even with all tiers applied; so what is read depends on the budget, not on the log. Old
messages that stay are read by their indices. Costs are those that were counted when messages were
appended, unless another counter is given.
"""

from __future__ import annotations

from typing import NamedTuple

from otolith.conversation.context.budget import Costs, Rules, Source, stable_cut
from otolith.conversation.context.context import Context, Indices, Missing, changes, stayed
from otolith.conversation.context.provider_messages import LEFT_OUT, PROVIDERS, send
from otolith.conversation.context.reductions import LEAST_CLAMP, Reducing
from otolith.conversation.context.units import Gathering, Reason, Unit
from otolith.conversation.message import Message, Role, Text
from otolith.conversation.summaries import LABEL, Summary, ask, key_of, shorten_to
from otolith.conversation.token_counts import AROUND
from otolith.errors import Invalid, OverBudget

_FIRST_READ, _MOST_SUMMARY, _LEAST_SUMMARY = 16, 1024, 32


class Read(NamedTuple):
    """What was read of a log: all from an index on, and what is older and stays."""

    low: int
    units: list[Unit]
    reasons: list[Reason]

    @property
    def older(self) -> int:
        """How many units are there only because they stay."""
        return sum(1 for unit in self.units if unit.at < self.low)


class Cut(NamedTuple):
    """Which units are sent, from which on all of them, and the summary of what is not."""

    units: list[Unit]
    first: int
    summary: Summary | None = None


def project(source: Source, rules: Rules) -> Context:
    """Return the context that a log gives within a budget.

    Raises:
        OverBudget: what must stay does not fit.
        Invalid: there is no such provider, or a number is negative.
    """
    if rules.for_ not in PROVIDERS:
        raise Invalid(f"{rules.for_!r} is no provider", hint=f"use one of {', '.join(PROVIDERS)}")
    counts = rules.budget, rules.tools_tokens, rules.keep_last, rules.keep_results
    if any(type(count) is not int or count < 0 for count in counts):
        raise Invalid(f"{counts} are no numbers of tokens and messages", hint="give 0 or more")
    if not 0 <= rules.slack < 1:
        raise Invalid(f"slack={rules.slack!r} is no share", hint="give 0 or more, and less than 1")
    return ContextBuilder(source, rules).context()


class ContextBuilder:
    """One context in the making."""

    def __init__(self, source: Source, rules: Rules) -> None:
        self._source = source
        self._rules = rules
        self._room = rules.budget - rules.tools_tokens
        self._costs = Costs(rules, source)
        if rules.for_ == "anthropic":
            self._room -= self._costs.scaled(0, rules.counter.count(LEFT_OUT) + AROUND)
        self._reducing = Reducing(rules, self._costs, self._room)
        self._failed: list[Reason] = []

    def context(self) -> Context:
        read = self._read_back()
        fits = self._reducing.mildest(read.units) if read.low == 0 else None
        cut = Cut(fits, 0) if fits is not None else self._cut(read)
        return self._context(read, cut)

    # Reading

    def _read_back(self) -> Read:
        """Read from the end until it would not fit, whatever is done to it."""
        low, more, least = self._source.length, _FIRST_READ, 0
        items: list[tuple[int, Message]] = []
        while low > 0 and (least <= self._room or not items):
            start = max(low - more, 0)
            some = self._source.read(start, low)
            items = [*enumerate(some, start), *items]
            limit = self._reducing.limit
            least += sum(self._costs.least(at, each, limit) for at, each in items[: len(some)])
            needed = (self._room - least) * len(items) // max(least, 1)
            low, more = start, min(max(needed, _FIRST_READ), 4 * len(items))
        return self._gathered(items, low)

    def _gathered(self, items: list[tuple[int, Message]], low: int) -> Read:
        source, turn = self._source, self._turn(items)
        stays = set(source.stays) | ({turn} if turn is not None else set())
        older = [(at, source.read(at, at + 1)[0]) for at in sorted(stays) if at < low]
        gathering = Gathering.of([*older, *items])
        for unit in gathering.units:
            kept = [at for at, _ in unit.messages() if at in stays]
            unit.stays = bool(kept)
            unit.is_turn = kept == [turn] and turn not in source.stays
        return Read(low, gathering.units, gathering.reasons)

    def _turn(self, items: list[tuple[int, Message]]) -> int | None:
        """Return where the user spoke last, if that is known or was just read."""
        if self._source.turn is not None:
            return self._source.turn
        return next((at for at, each in reversed(items) if each.role is Role.USER), None)

    # Cutting

    def _cut(self, read: Read) -> Cut:
        """Choose the unit to begin with; the older ones are dropped, or stand in a summary."""
        units = self._hard_enough(read)
        if read.older == len(units):
            return Cut(units, len(units))
        wants = self._rules.summariser is not None or self._source.has_summaries
        reserve = min(self._room // 6, _MOST_SUMMARY) if wants else 0
        cut = self._summarised(read, units, reserve) if reserve > _LEAST_SUMMARY else None
        return cut or Cut(units, stable_cut(units, *self._bounds(read, units, 0)))

    def _hard_enough(self, read: Read) -> list[Unit]:
        """Clamp until the last units fit beside what stays; at least the last one must."""
        limit, keep = self._reducing.limit, max(self._rules.keep_last, 1)
        units = self._reducing.all_tiers(read.units, limit)
        while self._least(units, keep) > self._room and limit > LEAST_CLAMP:
            limit = max(limit // 2, LEAST_CLAMP)
            units = self._reducing.all_tiers(read.units, limit)
        needed = self._least(units, 1)
        if needed > self._room:
            needed += self._rules.budget - self._room
            raise OverBudget(
                f"a context of {self._rules.budget:,} tokens: system messages, what was pinned,"
                f" tools and the last messages take {needed:,}",
                budget=self._rules.budget,
                needed=needed,
                hint="give a larger budget, unpin messages, or shorten the system prompt",
            )
        return units

    def _least(self, units: list[Unit], keep: int) -> int:
        stays = [unit for unit in units[:-keep] if unit.stays]
        return self._costs.total(stays) + self._costs.total(units[-keep:])

    def _bounds(self, read: Read, units: list[Unit], reserve: int) -> tuple[int, int]:
        """Return the first unit from which on everything fits, and the last to begin with."""
        left = self._room - reserve - self._costs.total(unit for unit in units if unit.stays)
        enough = left * (1 - self._rules.slack)
        keep = max(self._rules.keep_last, 1)
        first, last, used = len(units) - 1, None, 0
        for place in range(len(units) - 1, read.older - 1, -1):
            used += 0 if units[place].stays else self._costs.unit(units[place])
            if used > left and place < len(units) - 1:
                break
            first = place
            if last is None and used >= enough and len(units) - place >= keep:
                last = place
        return first, first if last is None else last

    # Summaries

    def _summarised(self, read: Read, units: list[Unit], reserve: int) -> Cut | None:
        """Return a cut with a summary of what is before it, if there is one or can be made."""
        if self._least(units, 1) + reserve > self._room:
            return None
        first, last = self._bounds(read, units, reserve)
        summary = self._source.find_summary(units[first].at, units[last].at)
        place = stable_cut(units, first, last)
        if summary is not None:
            stop = summary.stop
            place = next(at for at in range(first, last + 1) if units[at].at >= stop)
        else:
            summary = self._made(units[place].at)
        if summary is None:
            return None
        told = self._shortened(summary, reserve)
        return None if told is None else Cut(units, place, told)

    def _shortened(self, summary: Summary, reserve: int) -> Summary | None:
        """Return a summary that takes no more than is held in reserve for it; None if none can."""
        room = self._costs.counted(reserve) - AROUND - self._costs.counter.count(LABEL)
        told = summary._replace(text=shorten_to(summary.text, max(room, 1)))
        while told.text and self._costs.unit(_told(told)) > reserve:
            # another counter than the estimate, or another scale just there
            told = told._replace(text=told.text[: len(told.text) * 3 // 4])
        return told if told.text.strip() else None

    def _made(self, stop: int) -> Summary | None:
        """Return a new summary; a summariser that fails is a reason, not an error."""
        summariser = self._rules.summariser
        if summariser is None or stop == 0:
            return None
        before = self._source.last_summary(stop)
        start, told = (0, "") if before is None else (before.stop, before.text)
        try:
            messages = list(map(self._source.filled, self._source.read(start, stop)))
            text = ask(summariser, messages, told)
        except Exception as error:  # noqa: BLE001  # whatever a model or its network may raise
            self._failed.append(Reason(start, stop, "dropped", f"no summary: {error!r}"))
            return None
        summary = Summary(stop, text, *key_of(summariser))
        self._source.keep_summary(summary)
        return summary

    # The result

    def _context(self, read: Read, cut: Cut) -> Context:
        stays = [unit for unit in cut.units[: cut.first] if unit.stays]
        window = cut.units[cut.first :]
        start = window[0].at if window and (cut.first or read.low) else read.low
        told = [] if cut.summary is None else [_told(cut.summary)]
        sent = send(self._filled([*stays, *told, *window]), self._rules.for_)
        around = self._rules.budget - self._room
        units = [*stays, *told, *window]
        gone = [unit for unit in cut.units[: cut.first] if not unit.stays]
        missing = Missing.of([*stays, *window], gone, start)
        ats = [at for unit in units for at, _ in unit.messages()]
        foreign = sorted({(ats[place], why) for place, why in sent.losses.items()})
        return Context(
            messages=sent.messages,
            tokens=self._costs.total(units) + around,
            budget=self._rules.budget,
            for_=self._rules.for_,
            dropped=Indices(missing.ranges()),
            why=(
                *self._why(read, cut, missing, start),
                *(Reason(at, at + 1, "foreign", why) for at, why in foreign),
            ),
            system=sent.system,
            start=start,
            stop=self._source.length,
            estimate=self._costs.unscaled(units) + around,
            summary="" if cut.summary is None else cut.summary.text,
        )

    def _filled(self, units: list[Unit]) -> list[list[Message]]:
        return [[self._source.filled(each) for _, each in unit.messages()] for unit in units]

    def _why(self, read: Read, cut: Cut, missing: Missing, start: int) -> list[Reason]:
        stays = [unit for unit in cut.units[: cut.first] if unit.stays]
        done = [*read.reasons, *changes(read.units, cut.units)]
        gone = Indices(missing.ranges())
        return [
            *self._failed,
            *missing.reasons(is_summarised=cut.summary is not None),
            *stayed(stays, start),
            *(each for each in sorted(done) if each.start not in gone),
        ]


def _told(summary: Summary) -> Unit:
    message = Message(Role.USER, (Text(LABEL + summary.text),))
    return Unit(summary.stop, [(summary.stop, message)])
