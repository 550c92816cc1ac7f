"""Simulates with every kind of chance: `random`, the old numpy globals and new generators."""
# needs: numpy

# %%
import random

import numpy as np

random.seed("a fixed seed")
np.random.seed(77)
rng = np.random.default_rng(2024)

# %%
walk = [0]
for _ in range(50):
    walk.append(walk[-1] + random.choice((-1, 1)))
print(walk[-1])

# %%
deck = [f"{rank}{suit}" for suit in "SHDC" for rank in "23456789TJQKA"]
random.shuffle(deck)
hands = [deck[n::4][:5] for n in range(4)]
print(hands[0])

# %%
state = random.getstate()
first = [random.random() for _ in range(3)]

# %%
random.setstate(state)
second = [random.random() for _ in range(3)]
print(first == second)

# %%
inside = 0
thrown = 0


def throw(times):
    global inside, thrown
    xy = np.random.rand(times, 2)
    inside += int((xy**2).sum(axis=1).__le__(1).sum())
    thrown += times
    return 4 * inside / thrown


estimates = [throw(2000)]

# %%
estimates += [throw(2000) for _ in range(3)]
print(estimates)

# %%
old = np.random.RandomState(5)
spare = random.Random(9)
alias = spare
gauss = [random.gauss(0, 1)]  # leaves the second of its pair for the next call

# %%
gauss.append(random.gauss(0, 1))
normal = np.random.randn(3)  # an odd number: numpy keeps one back as well
alias.random()
print(spare.random() == random.Random(9).random())

# %%
normal = np.append(normal, np.random.standard_normal())
drawn = old.choice(100, 5, replace=False)
children = rng.spawn(3)
samples = np.stack([child.integers(0, 10, 6) for child in children])


# %%
def bootstrap(values, times=200):
    values = np.asarray(values)
    picks = rng.integers(0, len(values), (times, len(values)))
    return np.percentile(values[picks].mean(axis=1), [2.5, 97.5])


interval = bootstrap(walk)
rng.shuffle(drawn)

# %%
weather = ["dry"]
CHAIN = {"dry": {"dry": 0.8, "wet": 0.2}, "wet": {"dry": 0.4, "wet": 0.6}}
while len(weather) < 60:
    odds = CHAIN[weather[-1]]
    weather += random.choices(list(odds), weights=odds.values())
wet_share = weather.count("wet") / len(weather)

# %%
pcg = np.random.Generator(np.random.PCG64(3))
pcg.bit_generator.advance(1000)
shared = np.random.Generator(pcg.bit_generator)
mixed = [pcg.random(), shared.random(), pcg.random()]
print(shared.bit_generator is pcg.bit_generator)

# %%
last = (random.random(), float(np.random.random()), float(rng.random()), random.sample(range(9), 4))
print(last)
