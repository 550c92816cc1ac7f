"""Writes a module in one cell, imports it in another, edits and reloads it in a third."""
# needs: numpy

# %%
from pathlib import Path

lines = [
    "import math",
    "",
    "def spread(values):",
    "    middle = sum(values) / len(values)",
    "    return math.sqrt(sum((v - middle) ** 2 for v in values) / len(values))",
]
Path("measures.py").write_text("\n".join(lines) + "\n")

# %%
import importlib

importlib.invalidate_caches()
import measures

readings = [2.0, 4.0, 4.0, 5.0, 9.0]
first = measures.spread(readings)
print(round(first, 4))

# %%
helper = measures


def report(values):
    return {"n": len(values), "spread": round(measures.spread(values), 6)}


reports = [report(readings)]
print(helper is measures)

# %%
lines[-1] = "    return math.sqrt(sum((v - middle) ** 2 for v in values) / (len(values) - 1))"
Path("measures.py").write_text("\n".join(lines) + "\n")
importlib.reload(measures)
reports.append(report(readings))
print(reports)

# %%
lines += [
    "",
    "class Summary:",
    "    digits = 2",
    "",
    "    def __init__(self, values):",
    "        self.values = values",
    "",
    "    def __str__(self):",
    "        return f'{spread(self.values):.{self.digits}f}'",
]
Path("measures.py").write_text("\n".join(lines) + "\n")
importlib.reload(measures)
summary = measures.Summary(readings)
print(summary, summary.values is readings)

# %%
readings.append(100.0)
summary.digits = 4
texts = [str(summary), helper.Summary.digits]

# %%
import sys

Path("lib").mkdir(exist_ok=True)
Path("lib/units.py").write_text("FEET = 0.3048\n\n\ndef metres(feet):\n    return feet * FEET\n")
if "lib" not in sys.path:
    sys.path.insert(0, "lib")
importlib.invalidate_caches()

# %%
if "lib" not in sys.path:
    sys.path.insert(0, "lib")
from units import *

height = metres(10)
print(round(height, 3), FEET)

# %%
import numpy as np

converted = np.vectorize(metres)([1, 2, 3])
names = sorted(name for name in ("metres", "FEET", "np") if name in globals())
print(converted, names)
