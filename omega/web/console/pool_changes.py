"""Changes of pools by a form: weights, guarantees and limits of pools that share a parent."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from omega.cellstate.errors import BadInput, Refused
from omega.cellstate.pools import JOBS, ROOT, TASKS
from omega.client.client import Client

Form = Mapping[str, str]
"""Fields ``weight:POOL``, ``guarantee:RESOURCE:POOL``, ``limit:RESOURCE:POOL``; ``new`` and ``weight:`` add a pool."""
MOST_POOLS = 60
"""Pools of a form, each with a field for each setting."""
LIMITED = (TASKS, JOBS)


def rows(document: Mapping[str, Any], pool: str, resources: Sequence[str], form: Form) -> list[dict[str, Any]]:
    """Return the pools of the form: a pool and its siblings, as they are, with what was entered in their place."""
    return [
        {
            "name": each["name"],
            "chosen": each["name"] == pool,
            "fields": [
                {"name": name, "label": label, "value": form.get(name, value), "was": value}
                for name, label, value in _fields(each, resources)
            ],
        }
        for each in siblings(document, pool)
    ]


def entered(listed: Sequence[Mapping[str, Any]], form: Form) -> dict[str, str]:
    """Return the fields of a form that differ from the present settings, and those of a new pool."""
    fields = (field for row in listed for field in row["fields"])
    differing = {field["name"]: field["value"] for field in fields if field["value"] != field["was"]}
    return differing | {name: form.get(name, "") for name in ("new", "weight:")}


def siblings(document: Mapping[str, Any], pool: str) -> list[Mapping[str, Any]]:
    """Return the pools with the parent of a pool; without a pool those below the root."""
    pools = {each["name"]: each for each in document["pools"]}
    if pool and pool not in pools:
        raise Refused(f"pool {pool!r}: is not configured; create it with omega pool set {pool}")
    place = _place(pools[pool]) if pool else (ROOT, "")
    return [each for each in pools.values() if _place(each) == place or (not pool and _place(each)[0] == ROOT)][
        :MOST_POOLS
    ]


def _place(pool: Mapping[str, Any]) -> tuple[str, str]:
    return pool.get("parent", ROOT), pool.get("tree", "")


def _fields(pool: Mapping[str, Any], resources: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield name, label and value of each field of a pool."""
    name = pool["name"]
    weight = pool.get("weight")
    yield f"weight:{name}", "Weight", "" if weight is None else f"{weight:g}"
    for resource in resources:
        yield f"guarantee:{resource}:{name}", f"Guarantee, {resource}", str(pool.get("guarantee", {}).get(resource, ""))
    for resource in (*resources, *LIMITED):
        yield f"limit:{resource}:{name}", f"Limit, {resource}", str(pool.get("limits", {}).get(resource, ""))


def changed(document: Mapping[str, Any], form: Form) -> dict[str, Any]:
    """Return a document of pools with the settings of a form. Raises BadInput for a weight that is no number."""
    pools = [_with(pool, form) for pool in document["pools"]]
    fresh = form.get("new", "").strip()
    if fresh:
        parent = next((_place(each) for each in pools if each["name"] == form.get("pool")), (ROOT, ""))
        place = {"parent": parent[0]} | ({"tree": parent[1]} if parent[1] else {})
        pools.append(_with({"name": fresh, **(place if parent[0] != ROOT or parent[1] else {})}, form, ""))
    return {**document, "pools": pools}


def _with(pool: Mapping[str, Any], form: Form, called: str | None = None) -> dict[str, Any]:
    name = pool["name"] if called is None else called
    found = dict(pool)
    if (weight := form.get(f"weight:{name}")) is not None:
        found.pop("weight", None)
        found |= {"weight": _number(pool["name"], weight)} if weight.strip() else {}
    for setting, field in (("guarantee", "guarantee"), ("limits", "limit")):
        amounts = dict(found.pop(setting, {}))
        for key, value in form.items():
            kind, _, rest = key.partition(":")
            resource, _, of = rest.partition(":")
            if (kind, of) == (field, name) and ":" in rest:
                amounts.pop(resource, None)
                amounts |= {resource: value.strip()} if value.strip() else {}
        found |= {setting: amounts} if amounts else {}
    return found


def _number(pool: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BadInput(f"pool {pool}: weight: {text[:40]!r} is not a number; write for example 2") from None


def plan(client: Client, form: Form) -> dict[str, Any]:
    """Return the shares before and after the change of a form."""
    return client.plan_pools(changed(client.export_pools(), form))


def make(client: Client, form: Form) -> int:
    """Make the change of a form if the pools are of the version that it was made for; return the new version."""
    version = form.get("version", "")
    if not version.isdecimal():
        raise BadInput("the form names no version of the pools; open it again")
    made = client.import_pools(changed(client.export_pools(), form), version=int(version))
    return int(made["version"])


def preview(planned: Mapping[str, Any], resources: Sequence[str]) -> dict[str, Any]:
    """Return what the page shows of a plan: the shares of each pool before and after, of its largest resource."""
    listed = []
    for row in planned["pools"]:
        known = row["after"] or row["before"]
        resource = max(resources, key=lambda name: known[name])
        before, after = ((row[when] or {}).get(resource, 0.0) for when in ("before", "after"))
        listed.append({
            **row, "resource": resource, "was": before, "will": after, "held": row["usage"].get(resource, 0.0),
            "differs": abs(before - after) > 5e-4,
        })  # fmt: skip
    top = max((max(row["was"], row["will"], row["held"]) for row in listed), default=1.0) or 1.0
    return {**planned, "pools": listed, "top": min(1.0, top * 1.05)}
