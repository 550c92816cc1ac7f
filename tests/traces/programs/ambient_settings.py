"""Relies on settings outside of the namespace: options, contexts, the environment, other modules.

A hard case: nothing of this is in a variable, and a notebook keeps all of it.
"""
# needs: numpy, pandas

# %%
import decimal
import os
import sys
import warnings

import numpy as np
import pandas as pd

# %%
decimal.getcontext().prec = 6
pd.set_option("display.max_rows", 7)
np.set_printoptions(precision=2, suppress=True)
os.environ["REPORT_STYLE"] = "short"

# %%
ratio = decimal.Decimal(1) / 7
shown = np.array2string(np.array([1 / 3, 1e-9]))
print(ratio, shown)

# %%
style = os.environ.get("REPORT_STYLE", "long")
rows = pd.get_option("display.max_rows")
text = repr(pd.Series(range(30))).count("\n")
print(style, rows, text)

# %%
np.seterr(divide="raise")

# %%
try:
    outcome = np.array([1.0]) / 0
except FloatingPointError as problem:
    outcome = str(problem)
print(outcome)

# %%
warnings.simplefilter("error", category=UserWarning)

# %%
try:
    warnings.warn("careful", UserWarning)
    strict = False
except UserWarning:
    strict = True

# %%
sys.setrecursionlimit(1500)
import string

string.home_made = {"added": 1}

# %%
limit = sys.getrecursionlimit()
extra = getattr(string, "home_made", None)
second_ratio = decimal.Decimal(2) / 7
print(limit, extra, second_ratio, strict)

# %%
os.makedirs("deeper", exist_ok=True)
os.chdir("deeper")

# %%
with open("here.txt", "w") as file:
    file.write("in the deeper folder")
del file
place = os.path.basename(os.getcwd())
files = sorted(os.listdir("."))
print(place, files)
