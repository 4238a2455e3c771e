"""Files of pools: YAML or JSON with ``trees`` and ``pools``, as ``omega pool export`` writes them (docs/pools.md)."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from omega.cellstate.errors import BadInput
from omega.cellstate.pools import JOBS, ROOT, TASKS, Integral, Pool, Pools, PoolTree, PreemptionSettings
from omega.cellstate.pools.records import plain
from omega.cellstate.resources import SLOTS, Dimensions, format_amount, parse_amount
from omega.jobfile.lines import Document, joined, parse

LARGEST_FILE = 8 << 20
Amounts = dict[str, str | int | float]
_AMOUNTS = ("guarantee", "limits", "borrowing", "lending")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=False)


class IntegralFields(_Strict):
    """Fields of ``integral``."""

    type: Literal["none", "burst", "relaxed"] = "none"
    flow: Amounts = {}
    burst: Amounts = {}
    relaxed_multiplier: float | None = None
    can_accept_free_volume: bool = True
    distributes_free_volume: bool | None = None


class PreemptionFields(_Strict):
    """Fields of ``preemption``; times in seconds."""

    starvation_tolerance: float | None = None
    starvation_timeout: float | None = None
    aggressive_starvation_timeout: float | None = None
    aggressive_starvation: bool | None = None
    threshold: float | None = None
    aggressive_threshold: float | None = None
    non_preemptible_usage: Amounts | None = None
    allocation_timeout: float | None = None
    backoff: float | None = None
    allow_regular_preemption: bool | None = None
    allow_aggressive_preemption: bool | None = None
    evict_over_capacity: bool | None = None
    evict_over_limit: bool | None = None
    minimum_runtime: float | None = None
    evictions_per_minute: int | None = None
    eviction_cost: float | None = None
    gang_timeout: float | None = None


class PoolFields(_Strict):
    """Fields of a pool."""

    name: str
    parent: str = ROOT
    tree: str = ""
    weight: float | None = None
    guarantee: Amounts = {}
    limits: Amounts = {}
    mode: Literal["fair_share", "fifo"] = "fair_share"
    sort_keys: list[str] = ["weight", "start_time"]
    integral: IntegralFields = IntegralFields()
    users: list[str] = []
    reclaim: Literal["never", "guarantee", "fair-share"] = "fair-share"
    borrowing: Amounts = {}
    lending: Amounts = {}
    preemption: PreemptionFields = PreemptionFields()
    promised: bool = False
    gang_steps: bool = True
    reorders_for_guarantee: bool = False


class TreeFields(_Strict):
    """Fields of a tree."""

    name: str
    machines: str = ""
    default_parent: str = ROOT
    gang_steps: bool = False
    improved_fit_factor: bool = False
    reorder_for_guarantee: bool = False
    distribute_free_volume: bool = False
    main_resource: str = "cpu"
    smooth_period: float = 60.0
    saturation_period: float = 86_400.0
    relaxed_multiplier: float = 3.0
    weight_multiplier: float | None = None
    usage_half_life: float | None = None
    usage_exponent: float = 1.0
    partition_everywhere: bool = False
    operators_from: int | None = None
    preemption: PreemptionFields = PreemptionFields()


class FileFields(_Strict):
    """A whole file. `version`: of the pools that it was made from."""

    version: int | None = Field(default=None, ge=0)
    trees: list[TreeFields] = [TreeFields(name="default")]
    pools: list[PoolFields] = []


def read(path: Path, dimensions: Dimensions) -> tuple[Pools, int | None]:
    """Read a file; returns its pools and the version that it names. Raises BadInput with the line of what is wrong."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise BadInput(f"{path}: larger than {LARGEST_FILE >> 20} MiB, which no file of pools needs")
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: cannot be read: {error}") from None
    return from_document(parse(str(path), text, "pools and trees"), dimensions)


def from_document(document: Document, dimensions: Dimensions) -> tuple[Pools, int | None]:
    """Return the pools of a document, and the version that it names."""
    try:
        found = FileFields.model_validate(document.value)
    except ValidationError as error:
        wrong = [
            f"{document.where(each['loc'])}: {'.'.join(map(str, each['loc'])) or 'the file'}: {each['msg'].lower()}"
            for each in error.errors()
        ]
        raise BadInput(f"{joined(wrong)}; fields: see docs/pools.md") from None
    pools = tuple(_pool(each, dimensions, document.where(("pools", at))) for at, each in enumerate(found.pools))
    trees = tuple(_tree(each, dimensions, document.where(("trees", at))) for at, each in enumerate(found.trees))
    return Pools(pools, trees), found.version


def from_values(values: Mapping[str, Any], dimensions: Dimensions) -> tuple[Pools, int | None]:
    """Return the pools of plain values in the form of a file, and the version that they name."""
    return from_document(Document("pools", values, None), dimensions)


def limits(given: Mapping[str, str | int | float], dimensions: Dimensions, what: str) -> dict[str, str | int | float]:
    """Return limits by their names in the store: ``user_slots`` are ``tasks`` in a cell without that resource."""
    if SLOTS not in given or SLOTS in dimensions.names:
        return dict(given)
    if TASKS in given:
        raise BadInput(f"{what}: {SLOTS} and {TASKS} are the same in this cell; give one of them")
    return {TASKS if name == SLOTS else name: amount for name, amount in given.items()}


def amounts(given: Mapping[str, str | int | float], dimensions: Dimensions, what: str) -> dict[str, int]:
    """Return amounts in smallest units; ``tasks`` and ``jobs`` are plain counts. Raises BadInput."""
    found = {}
    for name, amount in given.items():
        if name not in (*dimensions.names, TASKS, JOBS):
            known = ", ".join(dimensions.names)
            raise BadInput(f"{what}: unknown resource {name!r}; this cell has {known}; limits also name tasks and jobs")
        if name in (TASKS, JOBS) and not re.fullmatch(r"-?\d+", str(amount)):
            raise BadInput(f"{what}: {name}: {str(amount)!r} is not a whole number")
        try:
            found[name] = parse_amount(name, amount)
        except BadInput as error:
            raise BadInput(f"{what}: {error}") from None
    return found


def _pool(fields: PoolFields, dimensions: Dimensions, where: str) -> Pool:
    values = fields.model_dump()
    values["limits"] = limits(values["limits"], dimensions, f"{where}: limits")
    for name in _AMOUNTS:
        values[name] = amounts(values[name], dimensions, f"{where}: {name}")
    integral = values["integral"]
    integral["kind"] = integral.pop("type")
    for name in ("flow", "burst"):
        integral[name] = amounts(integral[name], dimensions, f"{where}: {name}")
    values["integral"] = Integral(**integral)
    values["preemption"] = _preemption(values["preemption"], dimensions, where)
    return Pool(**{**values, "sort_keys": tuple(fields.sort_keys), "users": tuple(fields.users)})


def _tree(fields: TreeFields, dimensions: Dimensions, where: str) -> PoolTree:
    values = fields.model_dump()
    values["preemption"] = _preemption(values["preemption"], dimensions, where)
    return PoolTree(**values)


def _preemption(values: dict[str, Any], dimensions: Dimensions, where: str) -> PreemptionSettings:
    if values["non_preemptible_usage"] is not None:
        protected = amounts(values["non_preemptible_usage"], dimensions, f"{where}: non_preemptible_usage")
        values["non_preemptible_usage"] = protected
    return PreemptionSettings(**values)


def as_document(pools: Pools) -> dict[str, Any]:
    """Return pools as the value of a file: what differs from the defaults, amounts with units."""
    return {
        "version": pools.version,
        "trees": [{"name": tree.name} | _with_units(plain(tree)) for tree in pools.trees],
        "pools": [_with_units(plain(pool)) for pool in pools.pools],
    }


def _with_units(values: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        if name == "number":
            continue
        if name in (*_AMOUNTS, "flow", "burst", "non_preemptible_usage"):
            found[name] = {resource: format_amount(resource, amount) for resource, amount in value.items()}
        elif isinstance(value, Mapping):
            found[name] = _with_units(value)
        else:
            found["type" if name == "kind" else name] = value
    return found


def settings_of(pools: Pools, name: str) -> dict[str, Any]:
    """Return the settings of a pool that differ from the default, as in a file; empty for an ephemeral pool."""
    rows: list[dict[str, Any]] = as_document(pools)["pools"]
    return next((row for row in rows if row["name"] == name), {})


def dump(pools: Pools) -> str:
    """Return pools as YAML that `read` reads back."""
    text: str = yaml.safe_dump(as_document(pools), sort_keys=False, allow_unicode=True, width=110)
    return text
