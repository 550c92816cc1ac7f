"""Runs a post office as an event simulation; arrivals come from the global `random`."""
# needs: numpy

# %%
import heapq
import random
from collections import deque
from dataclasses import dataclass, field

random.seed(31)


# %%
@dataclass(order=True)
class Event:
    at: float
    kind: str = field(compare=False)
    person: int = field(compare=False, default=-1)


@dataclass
class Desk:
    name: str
    busy_until: float = 0.0
    served: list[int] = field(default_factory=list)


# %%
clock = 0.0
calendar = []
waiting = deque(maxlen=50)
desks = [Desk("left"), Desk("right")]
by_name = {desk.name: desk for desk in desks}
log = []


# %%
def arrive():
    heapq.heappush(calendar, Event(clock + random.expovariate(1 / 2.0), "arrive"))


def start(desk):
    event = waiting.popleft()
    took = random.lognormvariate(1.0, 0.4)
    desk.busy_until = clock + took
    desk.served.append(event.person)
    heapq.heappush(calendar, Event(desk.busy_until, desk.name, event.person))


arrive()

# %%
people = 0


def tick():
    global clock, people
    event = heapq.heappop(calendar)
    clock = event.at
    if event.kind == "arrive":
        event.person = people
        people += 1
        waiting.append(event)
        arrive()
    else:
        log.append((round(clock, 3), event.kind, event.person))
    for desk in desks:
        if waiting and desk.busy_until <= clock:
            start(desk)


while people < 20:
    tick()
print(round(clock, 2), len(waiting), len(log))

# %%
desks.append(by_name.setdefault("middle", Desk("middle")))
while people < 60:
    tick()
print(round(clock, 2), len(waiting), {desk.name: len(desk.served) for desk in desks})


# %%
# The rule for who is next changes while people stand in the queue.
def start(desk):
    waiting.rotate(random.randrange(-2, 3))
    event = waiting.popleft()
    took = random.triangular(1, 5, 2)
    desk.busy_until = clock + took
    desk.served.append(event.person)
    heapq.heappush(calendar, Event(desk.busy_until, desk.name, event.person))


while people < 100:
    tick()

# %%
left = by_name["left"]
left.closed = True
desks.remove(left)
before = len(left.served)
for _ in range(80):
    tick()
print(before == len(left.served), left in by_name.values())

# %%
import numpy as np

ends = np.array([at for at, *_ in log])
gaps = np.diff(ends)
per_desk = {name: np.array(desk.served) for name, desk in by_name.items()}
busiest = max(per_desk, key=lambda name: (per_desk[name].size, name))

# %%
pending = sorted(calendar)
next_event = pending[0]
print(next_event is calendar[0], next_event.kind)

# %%
checkpoint = random.getstate()
what_if = [random.random() for _ in range(5)]
random.setstate(checkpoint)
for _ in range(20):
    tick()
final = (round(clock, 6), people, len(waiting), round(random.random(), 9))
print(final)
