"""Files of pool trees: JSON or YAML as `omega pool compute` reads them (docs/fair-share-calculator.md)."""

from difflib import get_close_matches
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from omega.cellstate.errors import BadInput
from omega.cellstate.pools import Integral, Pool, PoolTree, Setting, table
from omega.jobfile.document import joined, parse
from omega.schedulers.fairshare.tree import Job, PoolState, Tree

_LONGEST_INPUT = 64 * 1024 * 1024
_LEAST, _MOST = 1e-9, 1e24
"""Bounds of a total, and the largest amount."""
_LIGHTEST, _HEAVIEST = 1e-9, 1e9
"""Bounds of a weight."""
_MOST_HEAVIER = 1e8
"""How often a weight may be that of a sibling: up to it, shares are exact."""
_MOST_TIMES = 1e12
"""How often a job may demand the total: beyond it, shares lose their digits."""
Amounts = dict[Annotated[str, Field(min_length=1)], Annotated[float, Field(strict=True, ge=0, le=_MOST)]]
Seconds = Annotated[float, Field(strict=True, ge=0, le=1e10)]
_BOUNDS = {
    (Pool, "weight"): (_LIGHTEST, _HEAVIEST), (PoolTree, "weight_multiplier"): (_LIGHTEST, _HEAVIEST),
    (PoolTree, "smooth_period"): (1e-3, 1e10), (PoolTree, "saturation_period"): (1e-3, 1e10),
    (PoolTree, "relaxed_multiplier"): (1, 1e6),
}  # fmt: skip
"""Bounds of settings that are others here than in a cell: within these, shares keep their digits."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


def _field(kind: type, each: Setting) -> tuple[Any, Any]:
    """Return the type of a setting in a file, and its default."""
    accepted, default = each.value_type, each.default
    if each.nested:
        return IntegralFields, IntegralFields()
    if each.amounts:
        return Amounts, {}
    if accepted == tuple[str, ...]:
        return list[str], list(default)
    if each.choices:
        return Literal[each.choices], default
    if each.bounds is not None:
        least, most = _BOUNDS.get((kind, each.name), each.bounds[:2])
        default = Field(default=default, ge=least, le=most, strict=True)
    return accepted | None if each.optional else accepted, default


def _model(kind: type, /, **more: Any) -> type[BaseModel]:
    """Return the model of the settings that a file has, by their names there, and of more fields."""
    given: dict[str, Any] = {each.compute: _field(kind, each) for each in table(kind) if each.compute}
    return create_model(f"{kind.__name__}Fields", __base__=_Strict, **given | more)


_STATE = {
    "priority_guarantee": "enable_priority_strong_guarantee_adjustment",
    "guarantee_donor": "enable_priority_strong_guarantee_adjustment_donorship",
}
"""Fields of `PoolState` that are settings of YTsaurus, and not of a cell's pools."""
IntegralFields = _model(
    Integral, volume=(Amounts, {}), last_share=(float, Field(default=0.0, ge=0, le=1e6, strict=True))
)
OptionFields = _model(PoolTree)
_JOB: dict[str, Any] = {
    "demand": (Amounts, {}),
    "usage": (Amounts, {}),
    "gang": (bool, False),
    "least": (float, Field(default=0.0, ge=0, le=1, strict=True)),
    "start_time": (float, Field(default=0.0, strict=True)),
    "pending_job_count": (int, Field(default=1, ge=0, le=10**9)),
    "best_allocation_share": (Amounts, {}),
}
ElementFields = _model(
    Pool, id=(str, Field(min_length=1)), kind=(Literal["pool", "job", "operation"], ...),
    **dict.fromkeys(_STATE.values(), (bool, False)), **_JOB,
)  # fmt: skip
"""Fields of a pool or a job."""
_OF_BOTH = {"id", "parent", "kind", "weight", "limits"}


class _File(BaseModel):
    """A whole file. Fields that are not read here (a name, notes, expected values) may stand beside these."""

    model_config = ConfigDict(allow_inf_nan=False)
    total_resources: Amounts = Field(min_length=1)
    tree: list[ElementFields]  # type: ignore[valid-type]
    options: OptionFields | None = None  # type: ignore[valid-type]
    seconds_since_previous_update: Seconds | None = None


def read(path: Path) -> tuple[Tree, float | None]:
    """Read a tree and the seconds since the update before from a JSON or YAML file; raises BadInput."""
    try:
        if path.stat().st_size > _LONGEST_INPUT:
            raise BadInput(f"{path}: larger than {_LONGEST_INPUT // 2**20} MiB, which no pool tree needs")
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: cannot be read: {error}") from None
    return from_document(parse(str(path), text, "total_resources and tree").value, str(path))


def from_document(document: Any, name: str = "document") -> tuple[Tree, float | None]:
    """Check a plain document and return its tree and the seconds since the update before; raises BadInput."""
    try:
        file: Any = _File.model_validate(document)
    except ValidationError as error:
        problems = [f"{_place(document, one['loc'])}: {_wrong(one)}" for one in error.errors()]
    else:
        problems = _contradictions(file, document)
    if problems:
        raise BadInput(f"{name}: {joined(problems)}; fields: see docs/fair-share-calculator.md")
    pools = [_settings(Pool, element) for element in file.tree if element.kind == "pool"]
    states = {element.id: _state(element) for element in file.tree if element.kind == "pool"}
    jobs = [_job(element, file.total_resources) for element in file.tree if element.kind != "pool"]
    options = _settings(PoolTree, file.options or OptionFields())
    tree = Tree(file.total_resources, pools, jobs, options, states=states)
    return tree, file.seconds_since_previous_update


def _place(document: Any, path: tuple[str | int, ...]) -> str:
    """Return a path to a value, with the name of the element that it is in."""
    text = ".".join(map(str, path)) or "the document"
    if len(path) > 1 and path[0] == "tree" and isinstance(document["tree"][path[1]], dict):
        own = document["tree"][path[1]].get("id")
        return f"{text} (of {own!r})" if isinstance(own, str) and own else text
    return text


def _wrong(error: Any) -> str:
    kinds = {
        "model_type": "want a mapping of fields",
        "dict_type": "want a mapping of resources to amounts",
        "too_short": "names no resource",
        "string_too_short": "a name has at least one character",
        "missing": "is missing",
        "extra_forbidden": "there is no such field",
    }
    bounds = error.get("ctx", {})
    if "ge" in bounds or "le" in bounds:
        text = f"want at least {bounds['ge']:g}" if "ge" in bounds else f"want at most {bounds['le']:g}"
    else:
        text = kinds.get(error["type"], error["msg"].replace("Input should be", "want"))
    value = error["input"]
    simple = isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) < 40)
    return f"{text}, not {value!r}" if simple and error["type"] not in kinds else text


def _contradictions(file: Any, document: dict[str, Any]) -> list[str]:
    """Return what no single field shows: misspelt fields, fields of the other kind, ratios that lose all digits."""
    problems = []
    for name in document:
        close = get_close_matches(str(name), _File.model_fields, 1, 0.8)
        if name not in _File.model_fields and close:
            problems.append(f"{name}: there is no such field; did you mean {close[0]}?")
    totals = file.total_resources
    problems += [
        f"total_resources.{name}: want 0 or at least {_LEAST:g}, not {total!r}"
        for name, total in totals.items()
        if 0 < total < _LEAST
    ]
    main = file.options and file.options.main_resource
    if file.options and "main_resource" in file.options.model_fields_set and main not in totals:
        problems.append(f"options.main_resource names {main!r}; the tree has {', '.join(totals)}")
    heaviest = {element.parent: element for element in sorted(file.tree, key=_weight)}
    for number, element in enumerate(file.tree):
        where = f"tree.{number} ({element.id!r})"
        beside = heaviest[element.parent]
        if _weight(element) * _MOST_HEAVIER < _weight(beside):
            problems.append(f"{where}: the weight of {beside.id!r} is more than {_MOST_HEAVIER:g} times its own")
        problems += [
            f"{where}: {name} is a field of {'jobs' if element.kind == 'pool' else 'pools'}"
            for name in _misplaced(element)
        ]
        for field in ("demand", "best_allocation_share"):
            for name, amount in getattr(element, field).items():
                if name not in totals:
                    problems.append(f"{where}: {field} names {name!r}; the tree has {', '.join(totals)}")
                elif field == "demand" and totals[name] and amount > _MOST_TIMES * totals[name]:
                    problems.append(f"{where}: demand of {name} is {amount:g}, more than {_MOST_TIMES:g} × the total")
    return problems


def _weight(element: Any) -> float:
    return 1.0 if element.weight is None else element.weight


def _misplaced(element: Any) -> list[str]:
    """Return fields of the other kind of element that are not what they are without being stated."""
    pool = element.kind == "pool"
    misplaced = []
    for name in sorted(element.model_fields_set - _OF_BOTH):
        value = getattr(element, name)
        plain = value == ElementFields.model_fields[name].default
        empty = isinstance(value, dict) and not any(value.values())
        if (name in _JOB) == pool and not plain and not empty:
            misplaced.append(name)
    return misplaced


def _settings(kind: type, given: Any) -> Any:
    settings: dict[str, Any] = {}
    for each in table(kind):
        if each.compute:
            value = getattr(given, each.compute)
            value = _settings(each.value_type, value) if each.nested else value
            settings[each.name] = tuple(value) if isinstance(value, list) else value
    return kind(**settings)


def _state(element: Any) -> PoolState:
    own = {name: getattr(element, field) for name, field in _STATE.items()}
    return PoolState(volume=element.integral.volume, last_share=element.integral.last_share, **own)


def _job(element: Any, totals: Amounts) -> Job:
    limits = dict(element.limits)
    for name, share in element.best_allocation_share.items():
        limits[name] = min(limits.get(name, inf), share * totals[name])
    return Job(
        element.id, element.parent, element.demand, usage=element.usage, limits=limits, weight=element.weight,
        gang=element.gang, least=element.least, start_time=element.start_time,
        pending=element.pending_job_count,
    )  # fmt: skip
