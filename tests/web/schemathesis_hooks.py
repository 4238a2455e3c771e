"""What schemathesis cannot know of the API: job files as YAML, and that requests name the cell of the test."""

import os
from typing import Any

import schemathesis
import yaml
from hypothesis import strategies as st

NAMES = st.sampled_from(["a", "b", "site", "x" * 129, "<script>", "é", ""])
AMOUNTS = st.sampled_from(["1", "500m", "2Gi", "-1", "1e400", "1x", 2, 0.5, True, None])
GROUPS = st.fixed_dictionaries(
    {"count": st.one_of(st.integers(-1, 5), st.just(10**30))},
    optional={
        "name": NAMES, "resources": st.dictionaries(st.sampled_from(["cpu", "memory", "gpu"]), AMOUNTS, max_size=2),
        "duration": st.sampled_from(["1s", "250ms", "1y", -5]), "array": st.sampled_from(["0-9", "9-0", "1,1", "x"]),
        "constraints": st.lists(st.sampled_from(["zone == 'z1'", "a ==", {"prefer": "a", "weight": 0}]), max_size=2),
    },
)  # fmt: skip
JOBS = st.fixed_dictionaries(
    {"name": NAMES, "tasks": st.lists(GROUPS, max_size=2)},
    optional={
        "kind": st.sampled_from(["batch", "service", "mapreduce", "BATCH"]), "pool": st.sampled_from(["web", "none"]),
        "precedence": st.integers(-1, 1_000_001), "gang": st.sampled_from([True, "strict", {"min": 2}, {"min": "x"}]),
        "after": st.lists(NAMES, max_size=2), "annotations": st.dictionaries(NAMES, st.text(max_size=20), max_size=2),
        "unknown": st.none(),
    },
)  # fmt: skip
BROKEN = st.sampled_from(
    [b"", b"\xff\xfe", b"a: [", b"- &a [*a]", b"a: !!python/object/apply:os.system [true]", b"---\n---\n", b"? ? ?",
     b"\t", b"a: &b [x, x]\nc: [*b, *b]", b"name: x\nname: y", b"!!binary aaa", b"1: 2", b"\x00", b"[" * 500]
)  # fmt: skip


def _yaml(value: Any) -> bytes:
    return yaml.safe_dump(value, allow_unicode=True).encode("utf-8", "replace")


schemathesis.openapi.media_type(
    "application/yaml",
    st.one_of(JOBS.map(_yaml), st.lists(JOBS, max_size=3).map(_yaml), BROKEN, st.binary(max_size=50)),
)


@schemathesis.hook
def map_query(context: schemathesis.HookContext, query: Any) -> Any:
    """Name the cell of the test, except in one of eight requests with another name; follow no output without end."""
    if isinstance(query, dict) and "cell" in query and len(str(query["cell"])) % 8:
        query["cell"] = os.environ["OMEGA_CELL"]
    if isinstance(query, dict) and str(query.get("follow")).lower() in ("true", "1", "yes", "on", "t", "y"):
        query["follow"] = False
    return query


@schemathesis.hook
def filter_query(context: schemathesis.HookContext, query: Any) -> bool:
    """Leave out parameters without a name: servers ignore unknown ones, and schemathesis expects that of all others."""
    return not (isinstance(query, dict) and "" in query)
