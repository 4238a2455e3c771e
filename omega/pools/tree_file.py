"""Files of pool trees: JSON or YAML as `omega pool compute` reads them (docs/fair-share-calculator.md)."""

from difflib import get_close_matches
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from omega.cellstate.errors import BadInput
from omega.jobfile.lines import joined, parse
from omega.schedulers.fairshare.tree import ROOT, Integral, Job, Options, Pool, Tree

_LONGEST_INPUT = 64 * 1024 * 1024
_LEAST, _MOST = 1e-9, 1e24
"""Bounds of a total, and the largest amount."""
_LIGHTEST, _HEAVIEST = 1e-9, 1e9
"""Bounds of a weight."""
_MOST_HEAVIER = 1e8
"""How often a weight may be that of a sibling: up to it, shares are exact."""
_MOST_TIMES = 1e12
"""How often a job may demand the total: beyond it, shares lose their digits."""
Amount = Annotated[float, Field(strict=True)]
Amounts = dict[Annotated[str, Field(min_length=1)], Annotated[float, Field(strict=True, ge=0, le=_MOST)]]
Seconds = Annotated[float, Field(strict=True, ge=0, le=1e10)]
Period = Annotated[float, Field(strict=True, ge=1e-3, le=1e10)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class IntegralFields(_Strict):
    """Fields of an element's `integral`."""

    type: Literal["none", "burst", "relaxed"] = "none"
    flow: Amounts = {}
    burst: Amounts = {}
    volume: Amounts = {}
    last_share: float = Field(default=0.0, ge=0, le=1e6, strict=True)
    relaxed_share_multiplier_limit: float | None = Field(default=None, ge=1, le=10, strict=True)
    can_accept_free_volume: bool = True
    should_distribute_free_volume_among_children: bool | None = None


class ElementFields(_Strict):
    """Fields of a pool or a job."""

    id: str = Field(min_length=1)
    parent: str = ROOT
    kind: Literal["pool", "job", "operation"]
    weight: float | None = Field(default=None, ge=_LIGHTEST, le=_HEAVIEST, strict=True)
    limits: Amounts = {}
    mode: Literal["fair_share", "fifo"] = "fair_share"
    fifo_sort_parameters: list[str] = ["weight", "start_time"]
    strong_guarantee: Amounts = {}
    integral: IntegralFields = IntegralFields()
    compute_promised_guarantee: bool = False
    fifo_reordering_for_guarantee: bool = False
    step_function_for_gang: bool = True
    enable_priority_strong_guarantee_adjustment: bool = False
    enable_priority_strong_guarantee_adjustment_donorship: bool = False
    demand: Amounts = {}
    usage: Amounts = {}
    gang: bool = False
    start_time: Amount = 0.0
    pending_job_count: int = Field(default=1, ge=0, le=10**9)
    best_allocation_share: Amounts = {}


_OF_BOTH = {"id", "parent", "kind", "weight", "limits"}
_OF_JOBS = {"demand", "usage", "gang", "start_time", "pending_job_count", "best_allocation_share"}


class OptionFields(_Strict):
    """Fields of `options`."""

    step_function_for_gang: bool = False
    improved_fit_factor: bool = False
    fifo_reordering_for_guarantee: bool = False
    should_distribute_free_volume_among_children: bool = False
    main_resource: str = "cpu"
    integral_smooth_period: Period = 60.0
    integral_pool_capacity_saturation_period: Period = 86_400.0
    relaxed_share_multiplier_limit: float = Field(default=3.0, ge=1, le=1e6, strict=True)
    infer_weight_from_guarantees_share_multiplier: float | None = Field(
        default=None, ge=_LIGHTEST, le=_HEAVIEST, strict=True
    )


class _File(BaseModel):
    """A whole file. Fields that are not read here (a name, notes, expected values) may stand beside these."""

    model_config = ConfigDict(allow_inf_nan=False)
    total_resources: Amounts = Field(min_length=1)
    tree: list[ElementFields]
    options: OptionFields | None = None
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
        found = _File.model_validate(document)
    except ValidationError as error:
        problems = [f"{_place(document, one['loc'])}: {_wrong(one)}" for one in error.errors()]
    else:
        problems = _contradictions(found, document)
    if problems:
        raise BadInput(f"{name}: {joined(problems)}; fields: see docs/fair-share-calculator.md")
    pools = [_pool(element) for element in found.tree if element.kind == "pool"]
    jobs = [_job(element, found.total_resources) for element in found.tree if element.kind != "pool"]
    tree = Tree(found.total_resources, pools, jobs, _options(found.options or OptionFields()))
    return tree, found.seconds_since_previous_update


def _place(document: Any, path: tuple[str | int, ...]) -> str:
    """Return a path to a value, with the name of the element that it is in."""
    text = ".".join(map(str, path)) or "the document"
    if len(path) > 1 and path[0] == "tree" and isinstance(document["tree"][path[1]], dict):
        own = document["tree"][path[1]].get("id")
        return f"{text} (of {own!r})" if isinstance(own, str) and own else text
    return text


def _wrong(error: Any) -> str:
    """Return what is wrong with a value, and the value."""
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


def _contradictions(found: _File, document: dict[str, Any]) -> list[str]:
    """Return what no single field shows: misspelt fields, fields of the other kind, ratios that lose all digits."""
    problems = []
    for name in document:
        close = get_close_matches(str(name), _File.model_fields, 1, 0.8)
        if name not in _File.model_fields and close:
            problems.append(f"{name}: there is no such field; did you mean {close[0]}?")
    totals = found.total_resources
    problems += [
        f"total_resources.{name}: want 0 or at least {_LEAST:g}, not {total!r}"
        for name, total in totals.items()
        if 0 < total < _LEAST
    ]
    main = found.options and found.options.main_resource
    if found.options and "main_resource" in found.options.model_fields_set and main not in totals:
        problems.append(f"options.main_resource names {main!r}; the tree has {', '.join(totals)}")
    heaviest = {element.parent: element for element in sorted(found.tree, key=_weight)}
    for number, element in enumerate(found.tree):
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


def _weight(element: ElementFields) -> float:
    return 1.0 if element.weight is None else element.weight


def _misplaced(element: ElementFields) -> list[str]:
    """Return fields of the other kind of element that are not what they are without being stated."""
    pool = element.kind == "pool"
    found = []
    for name in sorted(element.model_fields_set - _OF_BOTH):
        value = getattr(element, name)
        plain = value == ElementFields.model_fields[name].default
        empty = isinstance(value, dict) and not any(value.values())
        if (name in _OF_JOBS) == pool and not plain and not empty:
            found.append(name)
    return found


def _pool(element: ElementFields) -> Pool:
    integral = element.integral
    return Pool(
        element.id,
        element.parent,
        element.weight,
        element.strong_guarantee,
        element.limits,
        fifo=element.mode == "fifo",
        sort_keys=element.fifo_sort_parameters,
        integral=Integral(
            integral.type,
            integral.flow,
            integral.burst,
            integral.volume,
            integral.last_share,
            integral.relaxed_share_multiplier_limit,
            integral.can_accept_free_volume,
            integral.should_distribute_free_volume_among_children,
        ),
        promised=element.compute_promised_guarantee,
        gang_steps=element.step_function_for_gang,
        reorders_for_guarantee=element.fifo_reordering_for_guarantee,
        priority=element.enable_priority_strong_guarantee_adjustment,
        donor=element.enable_priority_strong_guarantee_adjustment_donorship,
    )


def _job(element: ElementFields, totals: Amounts) -> Job:
    limits = dict(element.limits)
    for name, share in element.best_allocation_share.items():
        limits[name] = min(limits.get(name, inf), share * totals[name])
    return Job(
        element.id,
        element.parent,
        element.demand,
        element.usage,
        limits,
        element.weight,
        element.gang,
        element.start_time,
        element.pending_job_count,
    )


def _options(options: OptionFields) -> Options:
    return Options(
        gang_steps=options.step_function_for_gang,
        improved_fit_factor=options.improved_fit_factor,
        reorder_for_guarantee=options.fifo_reordering_for_guarantee,
        distribute_free_volume=options.should_distribute_free_volume_among_children,
        main_resource=options.main_resource,
        smooth_period=options.integral_smooth_period,
        saturation_period=options.integral_pool_capacity_saturation_period,
        relaxed_multiplier=options.relaxed_share_multiplier_limit,
        weight_multiplier=options.infer_weight_from_guarantees_share_multiplier,
    )
