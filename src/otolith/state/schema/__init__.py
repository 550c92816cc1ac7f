"""Types as checks: whether a value fits an annotation, to the leaf and without converting it.

allows_extra  whether a model takes fields that it does not name
Field         a field of a model: its name, its check, whether it must be there
fields_of     the fields of a model of any family, each with its check
Misfit        what a check raises: the path, what was expected, what was found
"""

from otolith.state.schema.checks import Misfit
from otolith.state.schema.models import Field, allows_extra, fields_of

__all__ = ["Field", "Misfit", "allows_extra", "fields_of"]
