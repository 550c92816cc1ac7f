"""The door of codecs: values of every kind, lowered to plain data and lifted back.

Read `base.py` first: it is the contract. `plain.py`, `models.py`, `pickles.py` are the codecs of
Python's own values; `numpy.py`, `pandas/`, `arrow/`, `polars.py`, `scipy.py`, `torch.py` and
`pillow.py` those of libraries; `registry.py` joins them.

Codecs          lowers and lifts every value; `register` adds types of the user
Codec           the contract of one family of values
Opaque          a value whose type is not known here, stored again without loss
InertCodecs     codecs for checking a store: they make no object of a user's class, and run no code
Lost            the placeholder of a value that could not be stored
derive_key      the key that signs the pickles of one repo, from a secret
migration       declares how fields of an older version of a model become current ones
migrate         takes fields through the migrations of a model
migration_path  the migrations that lead from one version of a model to another
moved_class     the class that was stored under another name formerly
column, labels  one column of a stored frame, and the labels of its columns
parts_of        the steps into a value, and what is there; `part_at` and `with_part` follow them
graph_form      a value that contains itself, in a form without cycles
cyclic_objects  the objects in a value that contain themselves
are_alike       whether values have equal content, whichever of the objects in them are one
pickled_objects the objects that a pickle of a value has in it; `copied` puts others in their places
named_parts     the fields and attributes of a model; `with_named_part` puts another in, and
                `updated_in_place` all those of another instance
identical       whether two values are the same in type and content, all the way down
Document        a text that several edit at once, as it is stored; its `editor` edits it
content_of      the immutable object that has all of a value's content
"""

from otolith.codecs.base import Codec, identical
from otolith.codecs.documents import Document
from otolith.codecs.graphs import (
    Order,
    cyclic_objects,
    graph_form,
    has_parts,
    part_at,
    parts_of,
    with_part,
)
from otolith.codecs.migrations import migrate, migration, migration_path, moved_class
from otolith.codecs.models import (
    fields_of,
    may_have,
    named_parts,
    updated_in_place,
    with_named_part,
    without_named_part,
)
from otolith.codecs.pickles import are_alike, copied, derive_key, pickled_objects
from otolith.codecs.placeholders import InertCodecs, Lost, Opaque
from otolith.codecs.registry import FRAMES, Codecs, column, content_of, labels

TYPE_CHECKING = False

if TYPE_CHECKING:  # a document imports it when it is opened
    from otolith.codecs.text_editor import TextEditor as TextEditor

__all__ = [
    "FRAMES",
    "Codec",
    "Codecs",
    "Document",
    "InertCodecs",
    "Lost",
    "Opaque",
    "Order",
    "are_alike",
    "column",
    "content_of",
    "copied",
    "cyclic_objects",
    "derive_key",
    "fields_of",
    "graph_form",
    "has_parts",
    "identical",
    "labels",
    "may_have",
    "migrate",
    "migration",
    "migration_path",
    "moved_class",
    "named_parts",
    "part_at",
    "parts_of",
    "pickled_objects",
    "updated_in_place",
    "with_named_part",
    "with_part",
    "without_named_part",
]
