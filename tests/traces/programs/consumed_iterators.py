"""Things that are used up or held open: files, iterators, locks, contexts, matches, connections."""
# lost: reader, pairs, cycle, chunks, lock, match, numbers, stack, connection, cursor, watched, held

# %%
import contextlib
import csv
import io
import itertools
import re
import sqlite3
import threading
from pathlib import Path

Path("trees.csv").write_text("name,height\noak,21\nfir,33\nash,18\nelm,\n")

# %%
reader = open("trees.csv", newline="")
header = next(reader).strip().split(",")
print(header)

# %%
pairs = csv.reader(io.StringIO("oak,21\nfir,33\nash,18\n"))
oak = next(pairs)
numbers = iter([10, 20, 30])
ten = next(numbers)

# %%
cycle = itertools.cycle("abc")
labels = ["".join(itertools.islice(cycle, 2)) for _ in range(3)]
chunks = itertools.groupby(sorted(["oak", "elm", "fir", "olive", "fig"]), key=lambda word: word[0])
first_key, first_group = next(chunks)
first_words = list(first_group)
del first_group
print(labels, first_key, first_words)

# %%
lock = threading.Lock()
total = 0


def add(amount, guard=None):
    global total
    with guard or contextlib.nullcontext():
        total += amount
    return total


add(5, lock)

# %%
match = re.match(r"(\w+),(\d+)", "oak,21")
name, height = match.groups()
span = match.span(2)

# %%
events = []


@contextlib.contextmanager
def section(title):
    events.append(f"enter {title}")
    try:
        yield title.upper()
    finally:
        events.append(f"leave {title}")


with section("one") as loud, contextlib.suppress(KeyError):
    {}["nothing"]
print(events, loud)


# %%
class Timer:
    def __init__(self):
        self.laps = []

    def __enter__(self):
        self.laps.append("start")
        return self

    def __exit__(self, *problem):
        self.laps.append(problem[0].__name__ if problem[0] else "end")
        return True


timer = Timer()
with timer as same:
    raise LookupError("swallowed")
with timer:
    pass
print(timer.laps, same is timer)

# %%
stack = contextlib.ExitStack()
stack.callback(events.append, "unwound")
stack.close()
buffer = io.StringIO()
with contextlib.redirect_stdout(buffer):
    print("into a buffer")
captured = buffer.getvalue()

# %%
connection = sqlite3.connect(":memory:")
cursor = connection.execute("select 6 * 7, 'answer'")
row = cursor.fetchone()
print(row)


# %%
class Squares:
    """An iterator of the session: its state is plain data and survives."""

    def __init__(self, stop):
        self.at, self.stop = 0, stop

    def __iter__(self):
        return self

    def __next__(self):
        if self.at >= self.stop:
            raise StopIteration
        self.at += 1
        return self.at**2


squares = Squares(6)
some = [next(squares), next(squares)]

# %%
rest = list(squares)
again = list(squares)
print(some, rest, again, squares.at)


# %%
class Watched:
    pass


watched = Watched()
watched.feed = (line for line in ["a", "b"])
held = {"plain": [1, 2], "feed": watched.feed}
plain = held["plain"]
plain.append(3)

# %%
table = [
    dict(zip(header, line.split(","))) for line in Path("trees.csv").read_text().splitlines()[1:]
]
tallest = max((row for row in table if row["height"]), key=lambda row: int(row["height"]))
memo = io.BytesIO(b"0123456789")
memo.seek(4)
combos = list(itertools.combinations([row["name"] for row in table], 2))
products = tuple(itertools.product((0, 1), repeat=2))
print(tallest is table[1], len(combos), products[-1])
