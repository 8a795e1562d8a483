"""Holds the types and openapi.yaml together: a name or a value of one that the other lacks fails."""

from dataclasses import MISSING, fields
from typing import get_args

import pytest
import yaml
from conftest import FOLDER

from belfry import errors, types

SCHEMAS = yaml.safe_load((FOLDER.parent.parent / "httpapi" / "openapi.yaml").read_text())["components"]["schemas"]
CALL = set(types.CallOptions.__annotations__)


def names(kind):
    return set(kind.__annotations__)


def schema(name):
    """Returns the members of a schema. A dot leads to one of them, or into its items."""
    at = SCHEMAS
    for part in name.split("."):
        at = at[part]
        at = at.get("items", at)
        at = at.get("properties", at)
    return set(at)


@pytest.mark.parametrize(
    ("kind", "name", "ours", "theirs"),
    [
        (types.NewTask, "TaskRequest", set(), {"id"}),
        (types.Target, "Target", set(), set()),
        (types.Auth, "Auth", set(), set()),
        (types.JWT, "Auth.jwt", set(), set()),
        (types.Retry, "Retry", set(), set()),
        (types.Window, "Window", set(), set()),
        (types.TaskPatch, "TaskPatch", set(), set()),
        (types.TargetPatch, "TargetPatch", set(), set()),
        (types.RetryPatch, "RetryPatch", set(), set()),
        (types.FollowUp, "FollowUp", set(), set()),
        (types.TaskOutcome, "TaskOutcome", set(), set()),
        (types.Touch, "Touch", set(), set()),
        (types.TaskContent, "ScheduledTask", set(), set()),
        (types.QueuePolicy, "QueueRequest", CALL, {"queue"}),
        (types.QueuePatch, "QueuePatch", CALL, {"queue"}),
        (types.Repeat, "Repeat", set(), set()),
        (types.NewSchedule, "ScheduleRequest", CALL, {"id"}),
        (types.SchedulePatch, "SchedulePatch", CALL, {"id"}),
        (types.ScheduledPatch, "SchedulePatch.task", set(), set()),
        (types.OperationFilter, "BulkFilter", set(), set()),
        (types.NewOperation, "BulkOperation", CALL, {"dry_run"}),
        (types.BulkPatch, "BulkTaskPatch", set(), set()),
        (types.BulkSchedulePatch, "BulkSchedulePatch", set(), set()),
        (types.Settlement, "Settle", CALL, set()),
        (types.Nack, "Settle.nack", set(), set()),
        (types.Extend, "Settle.extend", set(), set()),
        (types.Problem, "Problem", set(), set()),
    ],
)
def test_requests_have_the_names_of_the_contract(kind, name, ours, theirs):
    assert names(kind) - ours == schema(name) - theirs


ANSWERS = [
    (types.Task, "Task"),
    (types.LeasedTask, "LeasedTask"),
    (types.Attempt, "History"),
    (types.BatchResult, "BatchAnswer"),
    (types.SettleResult, "SettleResult"),
    (types.Queue, "Queue"),
    (types.QueueCounts, "QueueCounts"),
    (types.BrokenReceiver, "BrokenReceiver"),
    (types.Schedule, "Schedule"),
    (types.NextOccurrence, "Occurrences.next"),
    (types.LastOccurrence, "Occurrences.last"),
    (types.Preview, "Preview"),
    (types.PreviewedOccurrence, "Preview.occurrences"),
    (types.TaskHistory, "TaskHistory"),
    (types.TaskEvent, "Event"),
]


@pytest.mark.parametrize(("kind", "name"), ANSWERS)
def test_answers_have_the_names_of_the_contract(kind, name):
    more = {"previous"} if kind is types.LeasedTask else set()
    assert {field.name for field in fields(kind)} - more == schema(name)


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, name in ANSWERS if "." not in name])
def test_only_members_that_an_answer_always_has_are_needed(kind, name):
    at = SCHEMAS[name].get("items", SCHEMAS[name])
    needed = {one.name for one in fields(kind) if one.default is MISSING and one.default_factory is MISSING}
    assert needed <= set(at["required"])


def test_an_operation_has_some_of_the_members_of_the_contract():
    assert {field.name for field in fields(types.Operation)} <= schema("Operation")


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (types.TaskState, SCHEMAS["State"]["enum"]),
        (types.Outcome, SCHEMAS["Outcome"]["enum"]),
        (types.Misfire, SCHEMAS["Misfire"]["enum"]),
        (types.Overlap, SCHEMAS["Overlap"]["enum"]),
        (types.EventType, [*SCHEMAS["Event"]["properties"]["type"]["enum"], "gap"]),
        (
            errors.ProblemType,
            [kind.removeprefix(errors.PREFIX) for kind in SCHEMAS["Problem"]["properties"]["type"]["enum"]],
        ),
    ],
)
def test_values_are_those_of_the_contract(ours, theirs):
    assert sorted(get_args(ours)) == sorted(theirs)


def test_each_type_of_problem_has_a_family():
    assert {kind for kinds in errors.FAMILIES.values() for kind in kinds} == set(get_args(errors.ProblemType))
