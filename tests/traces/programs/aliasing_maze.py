"""Two names for one thing, in every way: lists, dicts, views of views, frames, objects, cycles."""
# needs: numpy, pandas

# %%
import numpy as np
import pandas as pd

row = [0, 0, 0]
board = [row, row, [0, 0, 0]]
alias = board

# %%
board[0][1] = 7
alias.append(row)
print(board, row is alias[-1])

# %%
shared = {"level": 1}
config = {"web": {"limits": shared}, "jobs": {"limits": shared, "copy": dict(shared)}}
config["web"]["limits"]["level"] += 1
print(config)

# %%
base = np.arange(24.0).reshape(4, 6)
left = base[:, :3]
corner = left[:2, ::2]
flipped = base[::-1].T
flat = base.ravel()
own = base[1].copy()

# %%
corner[0, 0] = -1
flat[-1] = 100
own[:] = 0
print(base[0, 0], flipped[-1, 0], base[3, 5])

# %%
node = {"name": "root", "children": []}
for name in ("a", "b"):
    node["children"].append({"name": name, "parent": node, "children": []})
ring = [1, 2]
ring.append(ring)
first_child = node["children"][0]

# %%
first_child["parent"]["name"] = "renamed"
print(node["name"], ring[2][2] is ring)

# %%
frame = pd.DataFrame({"a": [1, 2, 3], "b": list("xyz")})


class Holder:
    def __init__(self, data):
        self.data = data
        self.owner = self

    def grow(self):
        self.data["c"] = self.data["a"] * 10


holder = Holder(frame)
frames = {"main": frame, "copy": frame.copy()}
holder.grow()
print(list(frame.columns), list(frames["copy"].columns))

# %%
matrix = base
base = base * 2  # a new array; `left` still looks into the old one
matrix[0] += 0.5
print(left[0, 0], base[0, 0], np.shares_memory(left, base))

# %%
words = ["x"]
objects = np.array([words, words, None], dtype=object)
cells = pd.Series([words, {"w": words}])
words += ["y"]
print(objects[1], cells[1]["w"] is words)

# %%
old = row
row = row + [1]
old += [9]
print(board[0], row)


# %%
class Node:
    __slots__ = ("value", "next")

    def __init__(self, value, next=None):
        self.value, self.next = value, next


tail = Node("tail")
middle = Node("middle", tail)
head = Node("head", middle)
tail.next = head
by_value = {item.value: item for item in (head, middle, tail)}

# %%
steps = []
at = head
for _ in range(7):
    steps.append(at.value)
    at = at.next
print(steps, at is by_value["middle"])

# %%
key = (1, row)
pairs = [key, (1, row)]
group = {"keys": pairs, "same": pairs[0]}
row.append("end")
print(pairs[1][1][-1], key is group["same"])

# %%
buffer = bytearray(b"abcdef")
window = memoryview(buffer)[2:4]
window[0] = ord("C")
released = bytes(window)
window.release()
del window

# %%
records = np.zeros(3, dtype=[("id", "i4"), ("score", "f8")])
scores = records["score"]
scores[:] = [0.5, -0.0, np.nan]
ids = records["id"]
ids += 1
masked = np.ma.masked_invalid(scores.copy())
print(records.tolist()[0], masked.count())

# %%
holder.data = holder.data.assign(d=0)
holder.me = [holder, {"self": holder}]
detached = holder.data is frame
methods = [holder.grow, holder.grow]
methods[0]()
print(detached, sorted(holder.data.columns), sorted(frame.columns))
