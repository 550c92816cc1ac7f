"""The door of codecs: values of every kind, lowered to plain data and lifted back.

Codecs     what the core is given: lower, lift, and register for one's own types
Codec      the contract of one family of values
Opaque     a value whose type is not known here, held so that nothing of it is lost
AsStored   for whoever checks a store: lifts no class of the user's, and runs no code
Lost       what stands where a value could not be kept
derive     the key that signs the pickles of one repo, from a secret
migration  how stored fields of an older version of a model become those of today; process-wide
migrate    fields taken through the migrations of a model
way        the migrations that lead from one version of a model to another
moved      the class that was stored under another name formerly, as migrations say
column     one column of a stored frame, and labels: what its columns are called
fields_of  the fields of a model class
identical  whether two values are the same in type and content, all the way down
content_of the object that has all of a value's content and never changes
"""

from otolith.codecs.base import Codec, identical
from otolith.codecs.columns import FRAMES, column, content_of, labels
from otolith.codecs.migrations import migrate, migration, moved, way
from otolith.codecs.models import fields_of
from otolith.codecs.pickles import derive
from otolith.codecs.placeholders import AsStored, Lost, Opaque
from otolith.codecs.registry import Codecs

__all__ = [
    "FRAMES",
    "AsStored",
    "Codec",
    "Codecs",
    "Lost",
    "Opaque",
    "column",
    "content_of",
    "derive",
    "fields_of",
    "identical",
    "labels",
    "migrate",
    "migration",
    "moved",
    "way",
]
