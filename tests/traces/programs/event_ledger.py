"""Keeps the books of a club from events: Decimals, dataclasses, undo and a report in text."""
# raises: 7

# %%
from __future__ import annotations

import uuid
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from datetime import date
from decimal import ROUND_HALF_EVEN, Decimal

CENT = Decimal("0.01")


# %%
@dataclass(frozen=True, slots=True)
class Entry:
    day: date
    account: str
    amount: Decimal
    id: uuid.UUID
    tags: frozenset[str] = frozenset()


@dataclass
class Book:
    entries: list[Entry] = field(default_factory=list)
    undone: list[Entry] = field(default_factory=list)
    watchers: list = field(default_factory=list, repr=False)

    def post(self, entry: Entry) -> None:
        self.entries.append(entry)
        for watch in self.watchers:
            watch(entry)

    def undo(self) -> Entry:
        self.undone.append(self.entries.pop())
        return self.undone[-1]


book = Book()

# %%
balances = defaultdict(Decimal)


def balance(entry):
    balances[entry.account] += entry.amount


book.watchers.append(balance)


# %%
def entry(day, account, amount, *tags):
    name = f"{day}/{account}/{amount}/{len(book.entries)}"
    money = Decimal(amount).quantize(CENT, ROUND_HALF_EVEN)
    return Entry(
        date.fromisoformat(day),
        account,
        money,
        uuid.uuid5(uuid.NAMESPACE_OID, name),
        frozenset(tags),
    )


for line in ["2024-01-03 dues 120", "2024-01-09 rent -80.005", "2024-02-01 dues 60.125"]:
    book.post(entry(*line.split()))
print(dict(balances))


# %%
class Limit(Exception):
    def __init__(self, account, missing):
        super().__init__(f"{account} lacks {missing}")
        self.account, self.missing = account, missing


def guard(entry):
    if balances[entry.account] < -100:
        raise Limit(entry.account, -100 - balances[entry.account])


book.watchers.append(guard)
refused = []

# %%
book.post(entry("2024-02-03", "rent", "-15", "winter", "heating"))
print(balances["rent"], [watch.__name__ for watch in book.watchers])

# %%
# The entry is in the book and in the balance when the guard speaks up.
book.post(entry("2024-03-03", "rent", "-80"))

# %%
last = book.undo()
balances[last.account] -= last.amount
try:
    guard(entry("2024-03-04", "rent", "0")), book.post(entry("2024-03-04", "trip", "-300"))
except Limit as limit:
    refused.append(limit)
print(last.amount, refused[0].missing, len(book.entries))

# %%
by_month = defaultdict(lambda: defaultdict(list))
for each in book.entries:
    by_month[each.day.strftime("%Y-%m")][each.account].append(each)
months = sorted(by_month)
newest = by_month["2024-03"]["trip"][0]
print(months, newest is book.entries[-1])

# %%
Book.total = property(lambda self: sum((each.amount for each in self.entries), Decimal()))
copy = Book(list(book.entries), [], book.watchers)
copy.watchers.remove(guard)
print(book.total, len(book.watchers))


# %%
@dataclass
class Book:
    entries: list[Entry] = field(default_factory=list)
    closed: bool = False


closed_book = Book(copy.entries, closed=True)
closed_book.entries.append(last)
print(isinstance(book, Book), copy.entries is closed_book.entries, book.total == copy.total)

# %%
rows = [asdict(each) for each in closed_book.entries]
width = max(len(row["account"]) for row in rows)
report = "\n".join(
    f"{row['day']:%d %b} {row['account']:<{width}} {row['amount']:>8}" for row in rows
)
tags = frozenset().union(*(each.tags for each in closed_book.entries))
print(report, sorted(tags))
