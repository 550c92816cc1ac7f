"""Cells that fail half-way: what they did before the error stays done."""
# needs: numpy, pandas
# raises: 3, 5, 7, 9, 12, 15, 17

# %%
import numpy as np
import pandas as pd

done = []
stock = {"nut": 10, "bolt": 4, "washer": 0}


# %%
def take(name, amount):
    if stock[name] < amount:
        raise ValueError(f"only {stock[name]} of {name}")
    stock[name] -= amount
    done.append((name, amount))


take("nut", 2)

# %%
for name, amount in [("bolt", 1), ("nut", 3), ("washer", 1), ("bolt", 1)]:
    take(name, amount)
never = True

# %%
print(name, amount, stock, "never" in globals())

# %%
total, bad = 0, None
for text in ["4", "5", "six", "7"]:
    total += int(text)

# %%
print(total, text)
bad = text

# %%
df = pd.DataFrame({"a": [1, 2, 3]})
df["b"] = df["a"] * 2
df["c"] = df["missing"] + 1

# %%
columns = list(df.columns)
matrix = np.arange(6).reshape(2, 3)
print(columns)

# %%
matrix[0] = [9, 9, 9]
matrix[1] = [1, 2]


# %%
class Ledger:
    entries = []

    def add(self, amount):
        self.entries.append(amount)
        if amount < 0:
            raise ArithmeticError(amount)
        self.last = amount


ledger = Ledger()
ledger.add(5)
print(matrix.sum())

# %%
problem = None
try:
    ledger.add(-1)
except ArithmeticError as caught:
    problem = caught
finally:
    done.append("finally")
print(problem.args, "caught" in globals(), ledger.last)


# %%
class Half:
    one = done.append("class body ran") or 1
    two = one / 0


# %%
exists = "Half" in globals()
print(exists, done[-1])

# %%
scratch = list(range(5))
keep = scratch
del scratch

# %%
keep.append(len(keep))
scratch.append("too late")


# %%
def deep(n):
    done.append(n)
    return deep(n - 1) if n else [][0]


trail = len(done)
print(keep)

# %%
value = deep(3)

# %%
print(done[trail:], "value" in globals())
errors = []
for attempt in (lambda: 1 / 0, lambda: {}["k"], lambda: int("x")):
    try:
        attempt()
    except (ZeroDivisionError, KeyError, ValueError) as e:
        errors.append(e)
kinds = [type(e).__name__ for e in errors]

# %%
with np.errstate(divide="ignore", invalid="ignore"):
    ratios = np.array([1.0, 0.0, -1.0]) / 0.0
log = [f"{name}: {count}" for name, count in stock.items()]
print(ratios, kinds, log)
