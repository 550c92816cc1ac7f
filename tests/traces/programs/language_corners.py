"""Corners of the language that a state keeper has to get right: scopes, deletes, odd types."""
# lost: found

# %%
from math import *
from string import *

radius = 2
circle = pi * radius**2
print(round(circle, 3), digits)

# %%
import enum
import re
from collections import ChainMap, Counter, OrderedDict, namedtuple
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal, getcontext
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import NamedTuple

# %%
Point = namedtuple("Point", "x y", defaults=[0])


class Pixel(NamedTuple):
    at: Point
    shade: int = 255


pixels = [Pixel(Point(1)), Pixel(Point(2, 3), 10)]
moved = pixels[0]._replace(at=Point(*reversed(pixels[1].at)))
print(moved, pixels[1].at.y)


# %%
class Color(enum.Enum):
    RED = 1
    GREEN = 2
    CRIMSON = 1

    def warm(self):
        return self is Color.RED


class Mode(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


chosen = Color.CRIMSON
access = Mode.READ | Mode.WRITE
levels = {Level.LOW: "calm", Level.HIGH: "storm"}
print(chosen.warm(), chosen is Color.RED, levels[5])

# %%
price = Decimal("19.90") * 3
third = Fraction(1, 3) + Fraction("0.25")
exact = {"price": price.quantize(Decimal("0.1")), "third": third, "float": 0.1 + 0.2}
print(exact)

# %%
moment = datetime(2024, 2, 29, 23, 30, tzinfo=timezone(timedelta(hours=5, minutes=30), "IST"))
tomorrow = moment.date() + timedelta(days=1)
span = datetime(2025, 1, 1, tzinfo=timezone.utc) - moment
where = PurePosixPath("a/b") / ".." / Path("c.txt").with_suffix(".md").name
print(tomorrow, span, where)

# %%
DATE = re.compile(r"(?P<year>\d{4})-(?P<month>\d\d)", re.VERBOSE | re.I)
found = DATE.search("written 2021-07, read 2022-08")
groups = found.groupdict()
every = DATE.findall("2021-07 2022-08")

# %%
total = 0
history = []
for n in range(5):
    total += n
    history += [total]
n *= 10
doubled = [n * 2 for n in range(3)]
print(n, doubled, history)

# %%
if (count := len(history)) > 3:
    long = True
squares = {(last := value): value * value for value in range(4)}
print(count, last, squares)

# %%
a, (b, *rest), *_ignored = 1, (2, 3, 4), 5, 6
a, b = b, a
x = y = []
x.append(a)
y += [b]
x = x + ["new"]
print(a, b, rest, x, y)

# %%
counter = 0


def bump(by=1):
    global counter, born_late
    counter += by
    born_late = counter * 100
    return counter


bump(), bump(4)
print(counter, born_late)

# %%
temp = {"keep": 1, "drop": 2}
del temp["drop"]
del radius, doubled
try:
    radius
except NameError:
    radius = None
items = list(range(10))
del items[::3]

# %%
raw = "naïve café".encode()
data = bytearray(raw)
data[0:2] = b"NA"
flags = {True: "yes", 1.0: "still yes", 0: "no"}
zero = [0.0, -0.0, float("nan"), float("inf"), complex(-0.0, 1)]
big = 3**200
print(flags, len(raw), data[:5])


# %%
def classify(value):
    match value:
        case {"kind": kind, **more} if more:
            return f"{kind} with {sorted(more)}"
        case Point(x=0) | Point(y=0):
            return "on an axis"
        case [first, *others]:
            return f"list of {1 + len(others)}"
        case str() | bytes():
            return "text"
        case Color():
            return "color"
        case _:
            return "unknown"


classes = [classify(v) for v in ({"kind": "a", "n": 1}, [1, 2], Point(3), b"", chosen, {})]
print(classes)

# %%
defaults = {"color": "grey", "size": 3}
chain = ChainMap({}, defaults)
chain["color"] = "blue"
ordered = OrderedDict.fromkeys("banana")
ordered.move_to_end("b")
letters = Counter("banana")
letters += Counter(b=2)
frozen = frozenset({frozenset({1, 2}), frozenset()})
nothing, dots, parts = None, ..., slice(1, None, 2)
print(chain["color"], defaults["color"], list(ordered), letters)

# %%
for index, letter in enumerate("ab"):
    pass
else:
    finished = True
while True:
    try:
        item = items.pop()
    except IndexError:
        break
    finally:
        counter -= 1
print(index, letter, item, counter, finished)


# %%
class Celsius(float):
    unit = "C"

    def __repr__(self):
        return f"{float(self):.1f}{self.unit}"


class Bag(dict):
    def __missing__(self, key):
        return f"no {key}"


warm = Celsius(21.55)
warm.sensor = "roof"
bag = Bag(a=1)
bag.owner = warm
wide = [warm, bag["b"], Path("."), range(0, 10, 3), type(warm), int, print]
print(wide[:4])
