"""Closures that share a cell, decorators with memory, caches, partials and late binding."""
# lost: countdown, squares, running, render

# %%
import functools
import operator
from collections import defaultdict

calls = defaultdict(int)


# %%
def counted(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        calls[function.__name__] += 1
        wrapper.last = args
        return function(*args, **kwargs)

    wrapper.last = None
    return wrapper


@counted
def area(width, height=1, *, scale=1.0):
    "Area of a rectangle."
    return width * height * scale


print(area(3), area(3, 4, scale=0.5), dict(calls))


# %%
def make_account(balance):
    history = [balance]

    def deposit(amount):
        nonlocal balance
        balance += amount
        history.append(balance)
        return balance

    def peek():
        return balance, tuple(history)

    return deposit, peek, history


deposit, peek, ledger = make_account(100)
deposit(20)

# %%
deposit(5)
ledger.append("by hand")
print(peek())

# %%
other_deposit, other_peek, _ = make_account(1)
other_deposit(1)
accounts = {"main": (deposit, peek), "other": (other_deposit, other_peek)}


# %%
@functools.lru_cache(maxsize=64)
def ways(stairs):
    calls["ways"] += 1
    return 1 if stairs < 2 else ways(stairs - 1) + ways(stairs - 2)


print(ways(20), calls["ways"])

# %%
late = [lambda: n for n in range(3)]
early = [lambda n=n: n for n in range(3)]
print([f() for f in late], [f() for f in early])

# %%
power = functools.partial(pow, exp=2)
add = functools.partial(operator.add, 10)
compose = lambda *functions: functools.reduce(lambda f, g: lambda x: g(f(x)), functions)
pipeline = compose(add, power, str, len)
print(pipeline(5))

# %%
factor = 2


def scaled(values):
    return [factor * value for value in values]


before = scaled([1, 2])
factor = 5
after = scaled([1, 2])


# %%
def tail(items, sink=[]):
    sink.append(items[-1])
    return sink


grown = tail([1, 2])
grown_again = tail("xyz")
print(grown is grown_again, tail.__defaults__)

# %%
countdown = (n for n in range(5, 0, -1))
squares = map(lambda n: n * n, range(10))
taken = [next(countdown), next(countdown), next(squares)]


# %%
def averager():
    total = count = 0
    while True:
        total += yield (total / count if count else None)
        count += 1


running = averager()
next(running)
means = [running.send(value) for value in (3, 5, 10)]
print(means)


# %%
def depth(tree):
    return 0 if not isinstance(tree, list) else 1 + max(map(depth, tree), default=0)


nested = [1, [2, [3, []]], []]
print(depth(nested))


# %%
def depth(tree, *, _inner=depth):
    calls["depth"] += 1
    return -_inner(tree)


print(depth(nested), dict(calls))


# %%
class Retry:
    def __init__(self, times):
        self.times = times
        self.failures = []

    def __call__(self, function):
        def attempt(*args):
            for n in range(self.times):
                try:
                    return function(*args, n)
                except ArithmeticError as problem:
                    self.failures.append(str(problem))
            return None

        attempt.policy = self
        return attempt


retry = Retry(3)


@retry
def shaky(value, n):
    return value // (n - 1) if n < 2 else value


outcomes = [shaky(7), retry(lambda value, n: 1 // 0)(0)]
print(outcomes, retry.failures, shaky.policy is retry)


# %%
@functools.singledispatch
def render(value):
    return repr(value)


@render.register
def _(value: list):
    return "[" + " ".join(map(render, value)) + "]"


rendered = render([1, ["a", 2.5]])
deposit(1)
last = (peek()[0], area.last, wayside := ways(21))
print(rendered, last, calls["ways"])
