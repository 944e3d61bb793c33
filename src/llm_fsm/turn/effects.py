"""The effects that a turn asks for, and their results. The shell performs effects; the core never
does.

AskModel → ModelReply, OutOfTime or Unanswered · RunHandlers → HandlerResults · CallTools →
ToolResults · CheckKeyResults → Verdicts · PickRoute → Routed · Execute → Executed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from llm_fsm._json import JsonMap
from llm_fsm.session.events import AnyEvent, FunctionFailed
from llm_fsm.session.messages import LLMRequest, ModelReply, PlainTurn, Usage
from llm_fsm.session.session import Agreement, Session

AskedFor = Literal["turn", "greeting", "words", "task", "judge", "summary"]


class Point(StrEnum):
    """The eight points at which handlers run."""

    START_CONVERSATION = "start_conversation"
    PRE_PROCESSING = "pre_processing"
    POST_PROCESSING = "post_processing"
    PRE_TRANSITION = "pre_transition"
    POST_TRANSITION = "post_transition"
    CONTEXT_UPDATE = "context_update"
    END_CONVERSATION = "end_conversation"
    ERROR = "error"


class AskModel(NamedTuple):
    """Get a reply. `view` makes the plain view of the turn, for adapters that read it.

    `left`: seconds left of the run's limit, here and in other effects; None: it has none. `about`:
    the matter of a summary, for a summariser that is no model: {"of", "happened", "summary",
    "background"}.
    """

    request: LLMRequest
    asked_for: AskedFor
    view: Callable[[], PlainTurn]
    left: float | None = None
    about: JsonMap | None = None


class RunHandlers(Struct, frozen=True, kw_only=True):
    """Run the handlers of one point.

    `target` is where a move leads, `updated` the keys just changed, `text` the words about to be
    said, `error` what failed. `number`: the events of the turn so far, which tell this time from
    others at the same point.
    `only`: handlers that run whatever their points and conditions, and no others.
    """

    point: Point
    session: Session
    number: int = 0
    target: str | None = None
    updated: frozenset[str] = frozenset()
    text: str | None = None
    error: BaseException | None = None
    only: frozenset[str] = frozenset()


class PlannedCall(Struct, frozen=True, kw_only=True):
    """One tool call whose name, scope and arguments were checked as far as the definition allows.

    `id`: the model's id of the call. `name`: the tool's name in the definition; `registered` or
    (`mcp`, `tool`) say what it is bound to. `key`: the idempotency key, the same when the turn is
    begun again. `timeout`: seconds. `parallel`: may run beside the other parallel calls of its
    batch. `scope`: the states in which it may run (checked again when it does); None: in all.
    """

    id: str
    name: str
    arguments: JsonMap
    key: str
    registered: str | None = None
    mcp: str | None = None
    tool: str | None = None
    timeout: float | None = None
    parallel: bool = False
    at_most_once: bool = False
    scope: tuple[str, ...] | None = None


class CallTools(Struct, frozen=True, kw_only=True):
    """Run a batch of calls in order, neighbours that are all parallel at once.

    `agreed`: the user's last yes, for tools that want it.
    """

    state: str
    calls: tuple[PlannedCall, ...]
    left: float | None = None
    agreed: Agreement | None = None


class CheckKeyResults(Struct, frozen=True, kw_only=True):
    """Run registered checks on the output of a task. `checks`: (key result's name, registered
    function).
    """

    state: str
    checks: tuple[tuple[str, str], ...]
    data: JsonMap
    """{"output": …, "context": …, "input": …}"""
    left: float | None = None


class PickRoute(Struct, frozen=True, kw_only=True):
    """Run the registered function that picks the way on from a task. `data`: {"output", "context",
    "input"}.
    """

    state: str
    function: str
    data: JsonMap
    left: float | None = None


class Execute(Struct, frozen=True, kw_only=True):
    """Run the registered function of a task state.

    `attempt` counts from 1; `feedback` says what failed in the attempt before. `answers`: what
    people answered to the breaks that the function asked for in this attempt, in order. `log`:
    results of the function's own calls before such a break, which are not performed again. `used`:
    what the run has used of its limits. `key`: the same when the turn is begun again, and after a
    break. `about`: what each answer was given to, see `subject`.
    """

    state: str
    function: str
    attempt: int
    feedback: str
    input: Any
    session: Session
    key: str = ""
    answers: tuple[Any, ...] = ()
    about: tuple[Any, ...] = ()
    log: JsonMap = {}
    used: Mapping[str, float] = {}


def subject(kind: str, what: str, call: JsonMap | None) -> list[Any]:
    """Return what an answer is about, as JSON: a call with its arguments, or a question."""
    return [kind, what, None if call is None else call.get("arguments")]


Effect = AskModel | RunHandlers | CallTools | CheckKeyResults | PickRoute | Execute


class OutOfTime(Struct, frozen=True, kw_only=True):
    """The limit of the run's seconds came before the model's reply. `seconds`: how long it was
    waited for.
    """

    seconds: float


class Unanswered(Struct, frozen=True, kw_only=True):
    """Nobody made the summary that somebody waits for, and the turn goes on without it.

    `reason`: the error's words. `attempts`: requests that were made, 0 where nobody was asked;
    `seconds` that it took.
    """

    reason: str
    attempts: int = 0
    seconds: float = 0.0


class HandlerResult(Struct, frozen=True, kw_only=True):
    """The result of one handler: `changes` to the context, new `text`, a `veto` with its reason, or
    an `error`.

    `seconds`: how long it took. `failed` says where the error arose.
    """

    handler: str
    changes: JsonMap = {}
    text: str | None = None
    veto: str | None = None
    error: str | None = None
    seconds: float = 0.0
    failed: FunctionFailed | None = None


class HandlerResults(Struct, frozen=True, kw_only=True):
    """The results of the handlers of one point, in the order in which they ran."""

    results: tuple[HandlerResult, ...] = ()


class ToolResult(Struct, frozen=True, kw_only=True):
    """The result of one call: a JSON `value`, or an `error` in words for the model. `seconds`: how
    long it took.

    `unknown`: the call was begun before a crash and nobody knows whether it finished. `refused`: it
    did not run, because its arguments do not fit. `failed` says where an error of the host's
    function arose.
    """

    id: str
    name: str
    value: Any = None
    error: str | None = None
    seconds: float = 0.0
    unknown: bool = False
    refused: bool = False
    failed: FunctionFailed | None = None


class ToolResults(Struct, frozen=True, kw_only=True):
    """The results of a batch, in the order of its calls. `elapsed`: seconds that it took as a
    whole.
    """

    results: tuple[ToolResult, ...]
    elapsed: float = 0.0


class Verdicts(Struct, frozen=True, kw_only=True):
    """The verdicts of registered checks: key result's name → (passed, reason). `seconds`: how long
    they took.

    `failed`: checks that raised.
    """

    verdicts: Mapping[str, tuple[bool, str]]
    seconds: float = 0.0
    failed: tuple[FunctionFailed, ...] = ()


class Routed(Struct, frozen=True, kw_only=True):
    """The label or state that a function picked; None ends the run. `error` says why it picked
    nothing.
    """

    label: str | None = None
    error: str | None = None
    seconds: float = 0.0
    failed: FunctionFailed | None = None


class Executed(Struct, frozen=True, kw_only=True):
    """The result of a task's function: its JSON `output`, what it changed, or an `error` in words.

    `context`: changes of the host (None deletes). `shared` and `memory`: their new values, whole.
    `happened`: what its own calls of models and tools did. `usage`: what they took. `paused`: the
    break that the function asked for, {"kind", "what", "call", "schema", "log"}, all optional.
    `limit`: the limit that stopped it. `seconds`: elapsed.
    """

    output: Any = None
    error: str | None = None
    context: JsonMap = {}
    shared: JsonMap | None = None
    memory: JsonMap | None = None
    happened: tuple[AnyEvent, ...] = ()
    usage: Usage = Usage()
    tool_calls: int = 0
    paused: JsonMap | None = None
    limit: str | None = None
    seconds: float = 0.0


Result = (
    ModelReply
    | OutOfTime
    | Unanswered
    | HandlerResults
    | ToolResults
    | Verdicts
    | Routed
    | Executed
)
