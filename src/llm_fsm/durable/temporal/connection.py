"""The connection to the server: patient calls, and the deletion of workflows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from functools import cache, partial
from typing import Any, TypeVar

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import (
    DeleteWorkflowExecutionRequest,
    DescribeNamespaceRequest,
)
from temporalio.client import Client
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.service import RPCError, RPCStatusCode

from llm_fsm.durable.temporal.flows import QUEUE
from llm_fsm.errors import ConfigurationError
from llm_fsm.stores.base import Store

T = TypeVar("T")
Report = Callable[[str], None]
"""Receives a sentence for the operator."""

PAUSE = 1.0
"""Seconds between two calls of a server or a store that is away."""
_ANSWERS = timedelta(seconds=5)
_REFUSALS = (
    RPCStatusCode.INVALID_ARGUMENT,
    RPCStatusCode.PERMISSION_DENIED,
    RPCStatusCode.UNAUTHENTICATED,
)
"""Answers of a server that is there: the same call would be refused again."""


class PatientCalls:
    """Makes calls of a server again while it is away, and tells so once an outage."""

    def __init__(self, address: str, report: Report) -> None:
        self._address = address
        self._report = report
        self._is_away = False

    async def __call__(self, call: Callable[[], Awaitable[T]]) -> T:
        """Call until there is an answer. Raises ConfigurationError for a call that is refused."""
        while True:
            try:
                answer = await call()
            except RPCError as error:
                if error.status in _REFUSALS:
                    said = f"Temporal at {self._address} refuses the call: {error.message}"
                    raise ConfigurationError(said) from error
            else:
                self._is_away = False
                return answer
            if not self._is_away:
                self._is_away = True
                self._report(f"Temporal at {self._address} does not answer; it is waited for")
            await asyncio.sleep(PAUSE)


async def connect(address: str, namespace: str = "default") -> Client:
    """Connect to a server.

    Args:
        address: HOST:PORT, or HOST:PORT/NAMESPACE.
        namespace: The namespace, if the address names none.

    Raises:
        ConfigurationError: There is no such namespace.
        RPCError: The server is away.
    """
    host, _, named = address.partition("/")
    space = named or namespace
    request = DescribeNamespaceRequest(namespace=space)
    try:
        async with asyncio.timeout(_ANSWERS.total_seconds()):
            client = await Client.connect(host, namespace=space, runtime=_runtime())
            await client.workflow_service.describe_namespace(request)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            said = f"Temporal at {host} has no namespace {space!r}: make it, or name another"
            raise ConfigurationError(f"{said} as HOST:PORT/NAMESPACE") from error
        raise
    except (RuntimeError, TimeoutError) as error:  # the connection itself failed
        raise RPCError(str(error), RPCStatusCode.UNAVAILABLE, b"") from error
    return client


@cache
def _runtime() -> Runtime:
    """Return the runtime of all connections of this process, which has threads of its own.

    It is quiet: who calls hears in one sentence that the server is away, and not for each retry.
    """
    quiet = LoggingConfig(filter=TelemetryFilter(core_level="ERROR", other_level="ERROR"))
    return Runtime(telemetry=TelemetryConfig(logging=quiet))


async def patiently_connected(address: str, report: Report) -> Client:
    """Connect, and wait as long as the server is away. `report` hears of it once."""
    return await PatientCalls(address, report)(partial(connect, address))


async def check_namespace(address: str) -> None:
    """Raise ConfigurationError if a server is there that has no such namespace."""
    with suppress(RPCError):
        await connect(address)


async def forget(client: Client, workflow_id: str) -> None:
    """Delete a workflow with its history, which holds messages in clear text."""
    request = DeleteWorkflowExecutionRequest(
        namespace=client.namespace, workflow_execution=WorkflowExecution(workflow_id=workflow_id)
    )
    try:
        await client.workflow_service.delete_workflow_execution(request, timeout=_ANSWERS)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise


class ForgettingStore:
    """A store that deletes the workflow of a conversation after the conversation itself.

    While Temporal is away, it tells so once, and deletes the workflow after a later deletion.
    """

    def __init__(self, store: Store, address: str, report: Report = lambda _: None) -> None:
        self._store = store
        self._address = address
        self._report = report
        self._left: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def delete(self, conversation_id: str) -> bool:
        """Delete both. The conversation is deleted also if its workflow cannot be."""
        deleted = await self._store.delete(conversation_id)
        is_told = bool(self._left)
        self._left.add(f"{QUEUE}/{conversation_id}")
        try:
            client = await connect(self._address)
            for workflow_id in tuple(self._left):
                await forget(client, workflow_id)
                self._left.discard(workflow_id)
        except (RPCError, ConfigurationError) as error:
            if not is_told:
                is_away = isinstance(error, RPCError)
                why = f"Temporal at {self._address} does not answer" if is_away else str(error)
                where = f"workflows such as {QUEUE}/{conversation_id}"
                self._report(f"deleted, but Temporal keeps the messages in {where}: {why}")
        return deleted
