"""Builds a small Lisp in steps: recursion, dispatch tables, environments in chains, redefinition."""
# raises: 9

# %%
import operator
import re
from collections import ChainMap
from functools import reduce

TOKEN = re.compile(r"\s*([()']|[^\s()']+)")


# %%
def parse(text):
    found = TOKEN.findall(text)

    def read():
        token = found.pop(0)
        if token == "'":
            return ["quote", read()]
        if token != "(":
            return int(token) if re.fullmatch(r"-?\d+", token) else token
        items = []
        while found[0] != ")":
            items.append(read())
        found.pop(0)
        return items

    return read()


tree = parse("(define (twice f x) (f (f x)))")
print(tree)

# %%
world = ChainMap(
    {},
    {
        "+": lambda *n: sum(n),
        "*": lambda *n: reduce(operator.mul, n, 1),
        "-": operator.sub,
        "<": operator.lt,
        "list": lambda *items: list(items),
        "first": operator.itemgetter(0),
    },
)
special = {}
steps = 0


# %%
def form(name):
    def register(function):
        special[name] = function
        return function

    return register


@form("quote")
def quote(environment, item):
    return item


@form("if")
def branch(environment, test, yes, no):
    return run(yes if run(test, environment) else no, environment)


def run(item, environment=world):
    global steps
    steps += 1
    if isinstance(item, str):
        return environment[item]
    if not isinstance(item, list):
        return item
    if isinstance(item[0], str) and item[0] in special:
        return special[item[0]](environment, *item[1:])
    function, *arguments = [run(part, environment) for part in item]
    return function(*arguments)


print(run(parse("(if (< 1 2) '(a b) 0)")), steps)


# %%
class Procedure:
    made = []

    def __init__(self, names, body, environment):
        self.names, self.body, self.environment = names, body, environment
        Procedure.made.append(self)

    def __call__(self, *arguments):
        return run(self.body, self.environment.new_child(dict(zip(self.names, arguments))))


@form("lambda")
def make(environment, names, body):
    return Procedure(names, body, environment)


@form("define")
def define(environment, target, body):
    if isinstance(target, list):
        target, body = target[0], ["lambda", target[1:], body]
    environment[target] = run(body, environment)
    return target


# %%
names = [run(tree), run(parse("(define (inc n) (+ n 1))"))]
answer = run(parse("(twice inc 5)"))
print(names, answer, world["twice"].environment is world)

# %%
run(parse("(define (fact n) (if (< n 2) 1 (* n (fact (- n 1)))))"))
factorials = [run(["fact", n]) for n in range(8)]
run(parse("(define (adder k) (lambda (n) (+ n k)))"))
add_ten = run(parse("(adder 10)"))
print(factorials, add_ten(5))

# %%
steps_before = steps
trace = []


def run(item, environment=world, _run=run):
    if isinstance(item, list) and item and isinstance(item[0], str):
        trace.append(item[0])
    return _run(item, environment)


print(run(parse("(twice (adder 3) 1)")), trace)

# %%
run(parse("(define broken (lambda (n) (undefined n)))"))
trace.append("about to fail")
run(parse("(broken 1)"))

# %%
world["undefined"] = world["inc"]
repaired = run(parse("(broken 1)"))
print(repaired, trace[-3:], len(Procedure.made))


# %%
class Macro(Procedure):
    made = ()

    def expand(self, *items):
        return super().__call__(*items)


when = Macro(["test", "body"], parse("(list 'if test body 0)"), world)
special["when"] = lambda environment, *items: run(when.expand(*items), environment)
lazy = run(parse("(when (< 2 1) (undefined nothing))"))
print(lazy, Procedure.made[-1] is when)

# %%
library = {name: value for name, value in world.maps[0].items() if isinstance(value, Procedure)}
free = sorted(library)
inner = add_ten.environment.maps[0]
inner["k"] = 100
run.__defaults__ = (world, run.__defaults__[1])
final = [add_ten(1), run(parse("(first (list 7 8))")), steps > steps_before]
print(free, final)
