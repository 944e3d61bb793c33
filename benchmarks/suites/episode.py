"""One retail task of τ-bench, played live by a model as the agent and another one as the customer.

The reward is that of τ-bench. It is 1 if the talk came to its end, the database is the one that the
writes of the right agent leave, and the agent said every text that the task wants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from benchmarks.suites.agents import Agent
from benchmarks.suites.customer import OPENING, STOP, Customer
from benchmarks.suites.desk import difference
from benchmarks.suites.retail_tools import Json
from benchmarks.suites.tau import Retail, Task, right_data
from llm_fsm.errors import LLMFSMError

LIMIT = 30
"""Messages of a customer, at most."""

End = Literal["customer", "agent", "limit", "error"]


@dataclass(frozen=True, slots=True)
class Exchange:
    """A message of the customer, and the answer of the agent."""

    customer: str
    agent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """A talk and its reward.

    Attributes:
        reward: 1.0 or 0.0; None if a model failed.
        ended_by: Who or what ended the talk.
        differs: The users and orders that are not as they should be; "" if all are.
        unsaid: The texts that the agent should have said.
        error: Why a model failed; "" if none did.
        said: The talk.
    """

    reward: float | None
    ended_by: End
    differs: str
    unsaid: Sequence[str]
    error: str
    said: Sequence[Exchange]

    def to_dict(self) -> Json:
        """Return the JSON form."""
        return {**asdict(self), "turns": len(self.said)}


async def play(
    retail: Retail,
    task: Task,
    data: Json,
    agent: Agent,
    customer: Customer,
    *,
    told: Callable[[Exchange], None],
) -> Episode:
    """Play a task.

    Args:
        retail: The set.
        task: The task.
        data: The database of the agent.
        agent: The agent.
        customer: The customer.
        told: Gets each exchange.
    """
    said: list[Exchange] = []
    error = ""
    ended_by: End = "error"
    try:
        ended_by = await _talk(agent, customer, said, told)
    except LLMFSMError as fault:
        error = f"{type(fault).__name__}: {fault}"
    finally:
        await agent.close()
    differs = difference(right_data(retail, task), data)
    unsaid = [text for text in task.outputs if not _is_said(text, said)]
    is_right = not differs and not unsaid and ended_by != "limit"
    return Episode(
        reward=None if error else float(is_right),
        ended_by=ended_by,
        differs=differs,
        unsaid=unsaid,
        error=error,
        said=said,
    )


async def _talk(
    agent: Agent, customer: Customer, said: list[Exchange], told: Callable[[Exchange], None]
) -> End:
    """Let both talk, and add to what was said. Return who ended it."""
    words = await customer.answer(OPENING)
    while STOP not in words:
        if len(said) == LIMIT:
            return "limit"
        said.append(Exchange(words, await agent.answer(words)))
        told(said[-1])
        if agent.ended:
            return "agent"
        words = await customer.answer(said[-1].agent)
    return "customer"


def _is_said(text: str, said: Sequence[Exchange]) -> bool:
    """Return true if an answer has a text; as in τ-bench, case and commas of answers do not count."""
    return any(text.lower() in one.agent.lower().replace(",", "") for one in said)
