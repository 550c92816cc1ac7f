"""Draws the same data several ways; figures and axes stay in variables and are changed later."""
# needs: numpy, matplotlib, pandas, seaborn

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

x = np.linspace(0, 4 * np.pi, 200)
waves = {"slow": np.sin(x / 2), "plain": np.sin(x), "fast": np.sin(3 * x)}

# %%
fig, ax = plt.subplots(figsize=(6, 3))
lines = {name: ax.plot(x, y, label=name)[0] for name, y in waves.items()}
ax.set_title("three waves")

# %%
ax.legend(loc="upper right")
ax.set_xlabel("angle")
lines["fast"].set_linestyle("--")
print(len(ax.lines), fig.axes[0] is ax)

# %%
grid, panels = plt.subplots(2, 2, sharex=True, figsize=(8, 6))
flat = panels.ravel()
for panel, (name, y) in zip(flat, waves.items()):
    panel.plot(x, y)
    panel.set_title(name)
flat[3].hist(waves["slow"], bins=12)


# %%
def annotate(axes, y, *, text="peak"):
    top = int(np.argmax(y))
    axes.axvline(x[top], color="grey")
    axes.set_ylabel(f"{text} {y[top]:.2f}")
    return top


peaks = {name: annotate(panel, y) for panel, (name, y) in zip(flat, waves.items())}
print(peaks)

# %%
rng = np.random.default_rng(5)
frame = pd.DataFrame({"height": rng.normal(170, 9, 120).round(1), "group": rng.integers(0, 3, 120)})
axes = frame.boxplot(column="height", by="group")
figure = axes.get_figure()

# %%
figure.suptitle("heights by group")
print(axes.figure is figure, len(figure.axes))

# %%
scatter_fig = plt.figure(figsize=(4, 4))
scatter_ax = scatter_fig.add_subplot(111)
points = scatter_ax.scatter(frame["group"], frame["height"], s=frame["height"] / 10)
twin = scatter_ax.twinx()
twin.plot([0, 1, 2], frame.groupby("group")["height"].mean())

# %%
fig.savefig("waves.png", dpi=40)
from pathlib import Path

magic = Path("waves.png").read_bytes()[:8]
print(magic)

# %%
ax.set_title("three waves, one dashed")
ax.set_ylim(-1.2, 1.2)
limits = ax.get_ylim()
panels[0, 0].set_title("slow (again)")
titles = [panel.get_title() for panel in flat]
print(titles)

# %%
style = {"color": "tab:green", "alpha": 0.5}
bars = panels[1, 1].bar([0, 1, 2], [3, 1, 2], **style)
heights = [bar.get_height() for bar in bars]

# %%
import seaborn as sns

heat_fig, heat_ax = plt.subplots(figsize=(4, 3))
hm = sns.heatmap(frame.assign(wave=waves["slow"][:120]).corr(), annot=True, ax=heat_ax)
print(hm is heat_ax, len(heat_fig.axes))

# %%
hm.set_title("how they go together")
facets = {number: part["height"].to_numpy(copy=True) for number, part in frame.groupby("group")}
print(heat_ax.get_title())

# %%
plt.close(figure)
del axes, figure
kept = {name: len(each.axes) for name, each in {"fig": fig, "grid": grid, "heat": heat_fig}.items()}
print(kept)
