"""The form of the fields of the hash ``pools``, for the audit (cellstate/pools/records.py lists them)."""

import re

from omega.cellstate.inspection import Inspection
from omega.cellstate.pools.records import unpack_pool, unpack_trees

_NUMBER = r"(?:0|[1-9]\d*)"
_FORMS = (
    (r"version|next", _NUMBER, "a number"),
    (r"operators", rf"-|{_NUMBER}", "a precedence"),
    (rf"b{_NUMBER}", r"((\d+|-) )+\d+( \d+)*", "limits and use"),
    (rf"[kt]{_NUMBER}", r"((\d+|-) )+\d+( \d+)*", "what is kept and occupied"),
    (r"c.*", r"(\d+( \d+)*)?(/(\d+( \d+)*)?:\d+)?(@\d+)?", "a list of pools"),
    (r"u.*", r".*", "a list of users"),
)
"""Names of fields, the form of their values, and what they are."""


def read_pool_field(inspection: Inspection, field: str, value: bytes) -> None:
    """Keep a field whose value has the form of its kind. Raises ValueError, or an error of decoding, for others."""
    if field == "trees":
        unpack_trees(value)
    elif re.fullmatch(rf"p{_NUMBER}", field):
        pool = unpack_pool(value)
        if pool.number != int(field[1:]):
            raise ValueError(f"is pool number {pool.number}")
    else:
        text = value.decode()
        forms = [(form, what) for name, form, what in _FORMS if re.fullmatch(name, field)]
        if not forms:
            raise ValueError("no such field; cellstate/pools/records.py lists them")
        form, what = forms[0]
        if not re.fullmatch(form, text):
            raise ValueError(f"{text!r} is not {what}")
    inspection.pools[field] = value
