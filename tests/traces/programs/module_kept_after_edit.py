"""Edits modules on disk while functions and instances of the old text stay in use: a hard case."""
# raises: 9

# %%
import importlib
import sys
from pathlib import Path

source = Path("geometry.py")
source.write_text(
    '''"""Plane figures."""
SIDES = {"triangle": 3, "square": 4}


def area(width, height):
    return width * height


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def norm(self):
        return abs(self.x) + abs(self.y)
'''
)

# %%
importlib.invalidate_caches()
import geometry

flat = geometry.area(3, 4)
corner = geometry.Point(1, -2)
print(flat, corner.norm())

# %%
from geometry import SIDES, area

old_area = area
sides_now = dict(SIDES)
print(area is geometry.area, SIDES is geometry.SIDES)

# %%
text = source.read_text()
text = text.replace("return width * height", "return width * height / 2  # of a triangle")
text = text.replace('"square": 4', '"square": 4, "hexagon": 6')
source.write_text(text)

# %%
geometry = importlib.reload(geometry)
half = geometry.area(3, 4)
whole = old_area(3, 4)
print(half, whole, old_area is geometry.area)

# %%
from geometry import area

origin = geometry.Point(0, 0)
print(area(2, 2), len(geometry.SIDES), len(SIDES))

# %%
package = Path("toolbox")
package.mkdir(exist_ok=True)
(package / "__init__.py").write_text("from toolbox.words import shout\n\nVERSION = (1, 0)\n")
(package / "words.py").write_text("def shout(text):\n    return text.upper() + '!'\n")

# %%
importlib.invalidate_caches()
from toolbox import VERSION, shout
from toolbox import words as w

loud = shout("done")
print(loud, VERSION, w.shout is shout)

# %%
(package / "words.py").write_text(
    "def shout(text):\n    return text.upper() + '!!!'  # louder\n\n\ndef whisper(text) return text\n"
)
stage = "before the reload"
importlib.reload(w)
stage = "after the reload"

# %%
(package / "words.py").write_text(
    "def shout(text):\n    return text.upper() + '!!!'  # louder\n\n\ndef whisper(text):\n    return text.lower()\n"
)
importlib.reload(w)
voices = [shout("a"), w.shout("a"), w.whisper("A")]
print(stage, voices)


# %%
class Labelled(geometry.Point):
    def __init__(self, x, y, label):
        super().__init__(x, y)
        self.label = label


marks = [Labelled(3, 4, "far"), Labelled(0, 1, "near")]
nearest = min(marks, key=geometry.Point.norm)
print(nearest.label, isinstance(nearest, geometry.Point))

# %%
settings = Path("settings.py")
settings.write_text("limits = {'rows': 10}\nname = 'first'\n")
importlib.invalidate_caches()
import settings as config

limits = config.limits
seen = [config.name, limits["rows"]]

# %%
Path("settings.py").write_text("limits = {'rows': 250}\nname = 'the second one'\n")
importlib.reload(config)
seen += [config.name, config.limits["rows"], limits["rows"]]
print(seen)
