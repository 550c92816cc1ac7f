"""Defines classes, makes instances, defines the classes again: old instances stay what they were."""
# raises: 9

# %%
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import total_ordering

unit = "km"


# %%
class Trip:
    made = 0
    tags: list = []

    def __init__(self, length):
        self.length = length
        type(self).made += 1

    def label(self):
        return f"{self.length} {unit}"


first = Trip(12)
second = Trip(30)
print(first.label(), Trip.made)

# %%
OldTrip = Trip
Trip.tags.append("draft")
first.tags.append("seen through the instance")
second.tags = ["own"]
print(Trip.tags)


# %%
class Trip:
    made = 0

    def __init__(self, length, mode="bus"):
        self.length = length
        self.mode = mode
        Trip.made += 1

    def label(self):
        return f"{self.mode}: {self.length} {unit}"


third = Trip(7)
kinds = [isinstance(trip, Trip) for trip in (first, second, third)]
print(kinds, type(first) is OldTrip, type(first).__name__ == type(third).__name__)

# %%
unit = "mi"
labels = [trip.label() for trip in (first, second, third)]
print(labels)


# %%
@total_ordering
@dataclass(frozen=True)
class Stop:
    name: str
    minute: int = 0
    notes: list[str] = field(default_factory=list, compare=False)

    def __lt__(self, other):
        return self.minute < other.minute


stops = [Stop("mill", 9), Stop("harbour", 2), Stop("school", 5)]
late = replace(stops[0], minute=30)
late.notes.append("moved")
print(stops[0].notes, late.notes is stops[0].notes)

# %%
by_name = {stop.name: stop for stop in stops}
stops.sort()
earliest = min(by_name.values())
print(earliest is stops[0])


# %%
class Shape(ABC):
    registry = {}

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        Shape.registry[cls.__name__] = cls

    @abstractmethod
    def area(self): ...

    @property
    def double(self):
        return 2 * self.area()


class Square(Shape):
    __slots__ = ("side",)

    def __init__(self, side):
        self.side = side

    def area(self):
        return self.side**2


class Circle(Shape):
    PI = 3.14

    def __init__(self, radius):
        self.radius = radius

    def area(self):
        return self.PI * self.radius**2


shapes = [Square(2), Circle(1)]
print([shape.double for shape in shapes], sorted(Shape.registry))


# %%
# Partial effects: the registry has the class before anybody can make one.
class Blob(Shape):
    pass


blob = Blob()

# %%
Circle.PI = 3.14159
Circle.diameter = lambda self: 2 * self.radius
after = [round(shape.area(), 3) for shape in shapes] + [shapes[1].diameter()]
print(after, "Blob" in Shape.registry)


# %%
class Square(Shape):
    def __init__(self, side):
        self.side = side

    def area(self):
        return self.side * self.side + 0.0


new_square = Square(2)
print(
    Shape.registry["Square"] is Square,
    isinstance(shapes[0], Square),
    hasattr(shapes[0], "__dict__"),
)


# %%
class Loud:
    def label(self):
        return super().label().upper()


class LoudTrip(Loud, Trip):
    pass


class QuietTrip(Loud, OldTrip):
    pass


loud = LoudTrip(3)
quiet = QuietTrip(4)
print(loud.label(), quiet.label(), Trip.made, OldTrip.made, QuietTrip.made)

# %%
first.__class__ = Trip
first.mode = "on foot"
adopted = (isinstance(first, Trip), isinstance(second, Trip))
bound = second.label
unit = "m"
print(first.label(), bound())


# %%
class Meta(type):
    count = 0

    def __call__(cls, *args, **kwargs):
        Meta.count += 1
        return super().__call__(*args, **kwargs)


class Counted(metaclass=Meta):
    def __eq__(self, other):
        return isinstance(other, Counted)

    def __hash__(self):
        return 7


pair = (Counted(), Counted())
same = len({*pair})
del OldTrip
print(Meta.count, same, type(second).made)
