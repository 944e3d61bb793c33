from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest

from llm_fsm.errors import ModelError
from llm_fsm.llm.retry import Pacing, Retries, RetryPolicy, is_retryable, parse_retry_after

pytestmark = pytest.mark.anyio


class FakeTime:
    """A clock that only sleeping and working moves; `slept` lists the waits."""

    def __init__(self, chance: float = 0.999) -> None:
        self.time = 1000.0
        self.slept: list[float] = []
        self.pacing = Pacing(now=lambda: self.time, sleep=self.sleep, chance=lambda: chance)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 2))
        self.time += seconds


def script(clock: FakeTime, *outcomes, takes: float = 0.0):
    """An attempt that gives or raises the outcomes in turn; `given` lists the seconds it was
    allowed.
    """
    left = list(outcomes)
    given: list[float] = []

    async def attempt(seconds: float):
        given.append(seconds)
        clock.time += min(takes, seconds)
        outcome = left.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    return attempt, given


def busy(retry_after: float | None = None) -> ModelError:
    return ModelError("busy", retryable=True, status=503, retry_after=retry_after)


async def test_a_failure_that_may_pass_is_tried_again_after_growing_waits():
    clock = FakeTime()
    retries = Retries(RetryPolicy(attempts=4), None, clock.pacing)
    attempt, _ = script(clock, busy(), busy(), busy(), "reply")
    assert await retries.run(attempt) == "reply"
    assert (retries.sent, clock.slept) == (4, [0.5, 1.0, 2.0])


async def test_the_last_failure_is_raised_with_the_number_of_attempts():
    clock = FakeTime()
    attempt, _ = script(clock, busy(), busy(3.0))
    with pytest.raises(ModelError, match=r"busy \(after 2 attempts\)") as caught:
        await Retries(RetryPolicy(attempts=2), None, clock.pacing).run(attempt)
    assert (caught.value.retryable, caught.value.status, caught.value.retry_after) == (
        True,
        503,
        3.0,
    )


async def test_a_failure_for_good_is_raised_at_once_as_it_is():
    clock = FakeTime()
    fault = ModelError("no such model", status=404)
    attempt, given = script(clock, fault)
    with pytest.raises(ModelError) as caught:
        await Retries(RetryPolicy(), None, clock.pacing).run(attempt)
    assert (caught.value, len(given), clock.slept) == (fault, 1, [])


async def test_other_exceptions_pass_through():
    clock = FakeTime()
    attempt, given = script(clock, KeyError("bug"))
    with pytest.raises(KeyError):
        await Retries(RetryPolicy(), None, clock.pacing).run(attempt)
    assert len(given) == 1


async def test_retry_after_is_honoured():
    clock = FakeTime(chance=0.0)
    attempt, _ = script(clock, busy(7.0), busy(), "reply")
    await Retries(RetryPolicy(), 20.0, clock.pacing).run(attempt)
    assert clock.slept == [7.0, 0.0]


@pytest.mark.parametrize(
    ("wait", "says"),
    [
        (None, r"within the 0.1 s left for it \(1 attempt; the last one failed: busy\)"),
        (0.1, r"within the 0.1 s left for it \(1 attempt; the last one failed: busy\)"),
        (6.0, "busy; it asks to wait 6 s, longer than may be waited"),
        (3600.0, "busy; it asks to wait 3600 s, longer than may be waited"),
    ],
)
async def test_a_wait_past_the_deadline_is_not_begun(wait, says):
    clock = FakeTime(chance=0.9)
    attempt, _ = script(clock, busy(wait))
    with pytest.raises(ModelError, match=says) as caught:
        await Retries(RetryPolicy(), 0.1, clock.pacing).run(attempt)
    assert (clock.slept, caught.value.retryable, caught.value.status) == ([], True, 503)
    assert caught.value.retry_after == wait


async def test_without_a_deadline_a_long_retry_after_is_given_back_to_the_caller():
    clock = FakeTime()
    attempt, _ = script(clock, busy(3600.0))
    with pytest.raises(ModelError, match="asks to wait 3600 s") as caught:
        await Retries(RetryPolicy(), None, clock.pacing).run(attempt)
    assert (clock.slept, caught.value.retry_after) == ([], 3600.0)


async def test_each_attempt_gets_its_own_limit_but_never_more_than_is_left():
    clock = FakeTime(chance=0.0)
    attempt, given = script(clock, busy(), busy(), "late", takes=4.0)
    with pytest.raises(ModelError, match="2 attempts"):
        await Retries(RetryPolicy(attempt_timeout=5.0), 8.0, clock.pacing).run(attempt)
    assert given == [5.0, 4.0]


async def test_no_time_left_means_no_attempt():
    clock = FakeTime()
    attempt, given = script(clock, "reply")
    with pytest.raises(ModelError, match="0 attempts"):
        await Retries(RetryPolicy(), 0.0, clock.pacing).run(attempt)
    assert given == []


@pytest.mark.parametrize(
    ("status", "again"),
    [(400, False), (401, False), (403, False), (404, False), (422, False)]
    + [(status, True) for status in (408, 409, 425, 429, 500, 502, 503, 504, 529)],
)
def test_which_statuses_may_pass(status, again):
    assert is_retryable(status) is again


NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("", None),
        ("7", 7.0),
        ("0.25", 0.25),
        ("-3", 0.0),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        (format_datetime(NOW.replace(minute=1), usegmt=True), 60.0),
        (format_datetime(NOW.replace(hour=1), usegmt=True), 0.0),
        ("Fri, 99 Nov 2026 12:00:00 GMT", None),
    ],
)
def test_retry_after_is_a_number_or_a_date(value, seconds):
    assert parse_retry_after(value, NOW.timestamp()) == seconds


@pytest.mark.parametrize(
    ("failures", "retry_after", "chance", "seconds"),
    [
        (1, None, 1.0, 0.5),
        (3, None, 0.5, 1.0),
        (10, None, 1.0, 8.0),
        (5000, None, 1.0, 8.0),
        (1, 4.0, 1.0, 4.0),
        (9, 4.0, 1.0, 8.0),
    ],
)
def test_waits_double_up_to_a_cap(failures, retry_after, chance, seconds):
    assert math.isclose(RetryPolicy().wait(failures, retry_after, chance), seconds)


@pytest.mark.parametrize(("timeout", "first"), [(300.0, 300.0), (None, 60.0)])
async def test_a_slow_model_is_asked_once_within_the_time_of_the_turn(timeout, first):
    clock = FakeTime()
    attempt, given = script(clock, "reply")
    await Retries(RetryPolicy(), timeout, clock.pacing).run(attempt)
    assert given == [first]
