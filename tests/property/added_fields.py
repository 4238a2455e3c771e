"""A pytest plugin (``-p tests.property.added_fields``): job records with a number and a text more than they have.

It changes the table before any reader or writer of records is made of it.
"""

from collections.abc import Sequence

from omega.cellstate import schema
from omega.cellstate.schema import Field

_ADDED: dict[Field, str | int] = {Field("rank", "4", "a number"): 70_000, Field("ticket", "t", "a text"): "T-77"}
_blank = schema.blank


def _filled(section: Sequence[Field]) -> dict[str, str | int]:
    return _blank(section) | {field.name: value for field, value in _ADDED.items() if field in section}


_names = [field.name for field in schema.FIXED]
_after = _names.index("submitted") + 1
_number, _text = _ADDED
schema.FIXED = (*schema.FIXED[:_after], _number, *schema.FIXED[_after:], _text)
schema.blank = _filled
