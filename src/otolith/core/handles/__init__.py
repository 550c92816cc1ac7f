"""Handles on one value of a state: each reads and writes what it touches, and no more."""

from otolith.core.handles.base import Holder
from otolith.core.handles.blobs import BlobHandle
from otolith.core.handles.counters import CounterHandle
from otolith.core.handles.lists import ListHandle
from otolith.core.handles.maps import MapHandle
from otolith.core.handles.sets import SetHandle

__all__ = ["BlobHandle", "CounterHandle", "Holder", "ListHandle", "MapHandle", "SetHandle"]
