"""Stored jobs as job files: reading the file gives the specification again."""

import itertools
from typing import Any

import pytest
from hypothesis import given, strategies as st

from omega import yaml_core
from omega.cellstate.durations import parse_duration
from omega.cellstate.model import JobSpec
from omega.cellstate.resources import Dimensions
from omega.jobfile.document import parse
from omega.jobfile.reader import JobFile, load
from omega.jobfile.written import document, duration
from omega.queries.working_copy import as_work
from omega.versions import present
from tests.unit.omega.test_jobfile import FULL

OTHERS = [
    "{name: a, tasks: [{count: 3, resources: {cpu: 2, gpu: 1}, duration: 1m30s}]}",
    "{name: a, gang: {min: 2, strict: true}, requeue: never, tasks: [{count: 4}]}",
    "{name: a, gang: {min: 2}, after: [b, {job: c, outcome: any}], tasks: [{array: '1-9:2,20'}, {array: 5-7}]}",
    "{name: a, kind: service, update: {max_down: 2, health: {command: [x], healthy_after: 3s}}, tasks: [{name: w}]}",
    "{name: a, speculation: true, tasks: [{count: 2, command: ['true'], repeatable: true}]}",
    "{name: a, speculation: {after: 2m, copies: 3}, expected_duration: 90s, tasks: [{}, {name: other}]}",
    "{name: a, on_abandon: keep, weight: 2.5, annotations: {x: '010', y: 'yes', z: '1:30', q: '~'}, tasks: [{}]}",
    "{name: a, tasks: [{health: {command: [curl], interval: 3s}, restart: {lost: 3, delay: 1s}, keep_output: 1Mi}]}",
]


def read(text: str) -> JobSpec:
    dimensions = Dimensions(("cpu", "memory", "gpu"))
    (spec,) = load([JobFile("job.yaml", text)], dimensions, itertools.repeat("made").__next__, lambda name: name)
    return spec


@pytest.mark.parametrize("text", [FULL, *OTHERS])
def test_a_stored_job_is_written_as_a_file_that_reads_the_same(text: str) -> None:
    spec = read(text)
    job = as_work(spec).job
    for status, group in zip(job.groups, spec.groups, strict=True):
        status.once, status.copies, status.budget = group.once, group.copies, group.budget
    written = yaml_core.dump({"id": spec.id} | document(job, present(job), Dimensions(("cpu", "memory", "gpu"))))
    again = read(written)
    assert again == spec


@given(st.integers(0, 10**9))
def test_durations_are_read_back(milliseconds: int) -> None:
    assert parse_duration(duration(milliseconds)) == milliseconds


PLAIN = st.text(st.characters(codec="utf-8", categories=("L", "M", "N", "P", "S", "Z")))
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**15), 10**15) | st.floats(allow_nan=False, width=32) | PLAIN,
    lambda inner: st.lists(inner) | st.dictionaries(PLAIN, inner),
    max_leaves=10,
)


@given(st.dictionaries(PLAIN, VALUES | st.sampled_from(["yes", "0o7", "010", "1:30", "2024-01-01", "<<", "=", "1e3"])))
def test_yaml_is_read_back_as_it_was(value: dict[str, Any]) -> None:
    assert parse("x.yaml", yaml_core.dump(value)).value == value
