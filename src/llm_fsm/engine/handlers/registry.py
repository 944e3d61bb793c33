"""Handlers: the host's own functions at eight points of a turn.

A handler receives an `Occasion`. It returns its changes of the context as a dict (None deletes a
key), or None. At `pre_transition` it may return a `Veto`. At `post_processing` and `error` it may
return the text to say instead; "" says nothing. Plain functions run in their own thread, async
functions on the event loop.
"""

from __future__ import annotations

import asyncio
import json
import math
import warnings
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from llm_fsm._async import is_async, is_cancelled
from llm_fsm._json import JsonMap, copied
from llm_fsm._text import nearest, sha256_of
from llm_fsm.conditions.coercion import is_number, mended
from llm_fsm.errors import ConfigurationError, HandlerError, told
from llm_fsm.session.context import has
from llm_fsm.tools.executor import CallFault, called
from llm_fsm.tools.failures import failure_of
from llm_fsm.tools.returns import check_runs
from llm_fsm.turn.effects import HandlerResult, Point, RunHandlers

ErrorMode = Literal["continue", "raise"]


@dataclass(frozen=True, slots=True)
class Veto:
    """Return it at `pre_transition` to forbid a move.

    Attributes:
        reason: The reason, which the model reads.
    """

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """The data that a handler receives.

    Attributes:
        point: The point of the turn.
        conversation_id: Id of the conversation.
        state: Id of the current state; at `post_transition`, the state that was entered.
        previous_state: Id of the state before it, if there was one.
        target: Id of the state that a move leads to.
        context: The handler's own copy of the context, without system names.
        system: The system names, such as `_turn`; they cannot be changed.
        user_input: The user's message, if there is one.
        updated: The keys that just changed.
        text: The text that will be said.
        error: The error of the turn.
        key: Identifies this run of the handler. It is the same if the handler runs again after a
            crash. Pass it to anything that must happen only once.
    """

    point: Point
    conversation_id: str
    state: str
    previous_state: str | None
    target: str | None
    context: JsonMap
    system: JsonMap
    user_input: str | None
    updated: frozenset[str] = frozenset()
    text: str | None = None
    error: BaseException | None = None
    key: str = ""


Predicate = Callable[[Occasion], bool]
Function = Callable[[Occasion], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """A function with the points and conditions under which it runs; make it with `create_handler`.

    Attributes:
        name: The name in records and errors.
        function: A plain or async function of one Occasion.
        points: The points at which it runs.
        priority: Handlers with a lower number run first.
        predicates: Conditions that must all be true.
        critical: True stops the turn if the function fails, in every error mode.
        timeout: Seconds for one call; None: the time of the turn.
        states: The states that its conditions name. The machine must know them.
        keys: The keys of the context that its conditions name.
    """

    name: str
    function: Function
    points: frozenset[Point]
    priority: int = 100
    predicates: tuple[Predicate, ...] = ()
    critical: bool = False
    timeout: float | None = None
    states: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    def wants(self, occasion: Occasion) -> bool:
        """Return true if this handler runs on an occasion at one of its points.

        Args:
            occasion: The occasion.

        Returns:
            True if all its predicates are true.

        Raises:
            TypeError: A predicate returns an awaitable, which would count as true.
        """
        for predicate in self.predicates:
            held = predicate(occasion)
            if isinstance(held, Coroutine):
                held.close()
            if isinstance(held, Awaitable):
                raise TypeError(
                    "a condition returned a coroutine, and nobody would await it: give a plain "
                    "value"
                )
            if not held:
                return False
        return True


def check_states(handler: Handler, known: Collection[str], definition: str) -> None:
    """Check the states that a handler names.

    A state unlike all known ones only causes a warning, because another machine may have it.

    Args:
        handler: The handler.
        known: The ids of the machine's states.
        definition: The name of the machine's definition.

    Raises:
        ConfigurationError: A state seems to be a misspelling of a known one.
    """
    for name in handler.states:
        if isinstance(name, str) and name in known:
            continue
        says = (
            f"handler {handler.name!r} names the state {name!r}, "
            f"which the definition {definition!r} does not have"
        )
        guess = nearest(name, known) if isinstance(name, str) else None
        if guess is None and isinstance(name, str):
            warnings.warn(says, RuntimeWarning, stacklevel=2)
        else:
            hint = f"did you mean {guess!r}?" if guess else "names are texts."
            raise ConfigurationError(
                f"{says}; {hint} For a state of another definition, there is when(…)"
            )


def point(name: str | Point) -> Point:
    """Return the point of a name.

    Args:
        name: The name, such as "pre_transition", in any case.

    Returns:
        The point.

    Raises:
        ValueError: There is no such point. The message lists the eight.
    """
    try:
        return Point(str(name).lower())
    except ValueError:
        guess = nearest(str(name), [known.value for known in Point])
        hint = f"; did you mean {guess!r}?" if guess else "."
        known = ", ".join(known.value for known in Point)
        raise ValueError(f"unknown handler point {name!r}{hint} The points are {known}") from None


@dataclass(slots=True)
class HandlerBuilder:
    """Builds a handler. Every method except `do` returns the builder. All conditions must be true.

    Attributes:
        name: The name of the handler.
    """

    name: str
    _points: set[Point] = field(default_factory=set)
    _predicates: list[Predicate] = field(default_factory=list)
    _priority: int = 100
    _critical: bool = False
    _timeout: float | None = None
    _states: list[str] = field(default_factory=list)
    _keys: list[str] = field(default_factory=list)

    def with_priority(self, priority: int) -> HandlerBuilder:
        """Set the priority.

        Args:
            priority: Handlers with a lower number run first. The default is 100.

        Returns:
            The builder.

        Raises:
            ValueError: It is no number.
        """
        if not is_number(priority):
            raise ValueError(f"handler {self.name!r}: priority is a number, not {priority!r}")
        self._priority = priority
        return self

    def as_critical(self) -> HandlerBuilder:
        """Let a failure stop the turn.

        Returns:
            The builder.
        """
        self._critical = True
        return self

    def with_timeout(self, seconds: float) -> HandlerBuilder:
        """Limit the time of the function.

        Args:
            seconds: The limit.

        Returns:
            The builder.

        Raises:
            ValueError: The number is not above 0.
        """
        if not seconds > 0:
            raise ValueError(
                f"handler {self.name!r}: timeout is a number of seconds above 0, not {seconds!r}"
            )
        self._timeout = seconds
        return self

    def when(self, predicate: Predicate) -> HandlerBuilder:
        """Run only if a predicate is true.

        Args:
            predicate: A plain function of one Occasion.

        Returns:
            The builder.

        Raises:
            TypeError: The predicate is async, or no function.
        """
        if not callable(predicate):
            raise TypeError(
                f"handler {self.name!r}: when(…) takes a function, not a {type(predicate).__name__}"
            )
        check_runs(predicate, f"handler {self.name!r}: the function in when(…)")
        # A coroutine would always count as true.
        if is_async(predicate):
            name = getattr(predicate, "__qualname__", type(predicate).__qualname__)
            raise TypeError(
                f"{name} is async, and nobody would await it: a condition is a plain function"
            )
        self._predicates.append(predicate)
        return self

    def at(self, *points: str | Point) -> HandlerBuilder:
        """Set the points at which it runs.

        Args:
            points: Names of points; see `llm_fsm.turn.effects.Point`.

        Returns:
            The builder.

        Raises:
            ValueError: There is no such point.
        """
        self._points.update(point(name) for name in points)
        return self

    def on_state(self, *states: str) -> HandlerBuilder:
        """Run only in these states.

        Args:
            states: Ids of states.

        Returns:
            The builder.
        """
        return self._named(states, lambda occasion: occasion.state in states)

    def not_on_state(self, *states: str) -> HandlerBuilder:
        """Do not run in these states.

        Args:
            states: Ids of states.

        Returns:
            The builder.
        """
        return self._named(states, lambda occasion: occasion.state not in states)

    def on_target_state(self, *states: str) -> HandlerBuilder:
        """Run only for moves to these states.

        Args:
            states: Ids of states.

        Returns:
            The builder.
        """
        return self._named(states, lambda occasion: occasion.target in states)

    def not_on_target_state(self, *states: str) -> HandlerBuilder:
        """Do not run for moves to these states.

        Args:
            states: Ids of states.

        Returns:
            The builder.
        """
        return self._named(states, lambda occasion: occasion.target not in states)

    def when_context_has(self, *keys: str) -> HandlerBuilder:
        """Run only if all these keys are set.

        Args:
            keys: Keys of the context.

        Returns:
            The builder.
        """
        self._keys += keys
        return self.when(lambda occasion: all(has(occasion.context, key) for key in keys))

    def when_keys_updated(self, *keys: str) -> HandlerBuilder:
        """Run only if one of these keys just changed.

        Args:
            keys: Keys of the context.

        Returns:
            The builder.
        """
        self._keys += keys
        return self.when(lambda occasion: not occasion.updated.isdisjoint(keys))

    def on_state_entry(self, *states: str) -> HandlerBuilder:
        """Run after a move into one of these states.

        Args:
            states: Ids of states; none: any state.

        Returns:
            The builder.
        """
        self.at(Point.POST_TRANSITION)
        return self.on_state(*states) if states else self

    def on_state_exit(self, *states: str) -> HandlerBuilder:
        """Run after a move out of one of these states.

        Args:
            states: Ids of states; none: any state.

        Returns:
            The builder.
        """
        self.at(Point.POST_TRANSITION)
        return (
            self._named(states, lambda occasion: occasion.previous_state in states)
            if states
            else self
        )

    def on_context_update(self, *keys: str) -> HandlerBuilder:
        """Run after an accepted update of one of these keys.

        Args:
            keys: Keys of the context; none: any key.

        Returns:
            The builder.
        """
        self.at(Point.CONTEXT_UPDATE)
        return self.when_keys_updated(*keys) if keys else self

    def do(self, function: Function) -> Handler:
        """Return the handler that calls this function.

        Args:
            function: A plain or async function of one Occasion. The module's docstring says what it
                may return.

        Returns:
            The handler, for `Machine(…, handlers=[…])`.

        Raises:
            ValueError: It is no function, a generator function, or no point was named.
        """
        if not callable(function):
            raise ValueError(
                f"handler {self.name!r} is a function, not a {type(function).__name__}"
            )
        check_runs(function, f"handler {self.name!r}")
        # A handler without a point would never run, and nobody would notice.
        if not self._points:
            raise ValueError(
                f"handler {self.name!r} has no point: call at(…), on_state_entry(…) or another "
                "first"
            )
        return Handler(
            name=self.name,
            function=function,
            points=frozenset(self._points),
            priority=self._priority,
            predicates=tuple(self._predicates),
            critical=self._critical,
            timeout=self._timeout,
            states=tuple(self._states),
            keys=tuple(self._keys),
        )

    def _named(self, states: Sequence[str], predicate: Predicate) -> HandlerBuilder:
        self._states += states
        return self.when(predicate)


def create_handler(name: str) -> HandlerBuilder:
    """Begin to build a handler; call `do` last.

    Args:
        name: The name that records and errors show.

    Returns:
        The builder.

    Example:
        >>> def sign(occasion):
        ...     return f"{occasion.text} Yours, the bot"
        >>> create_handler("sign").at("post_processing").on_state("farewell").do(sign).priority
        100
    """
    return HandlerBuilder(name)


def occasion_key(effect: RunHandlers, handler: str) -> str:
    """Return the idempotency key of a handler's run. It is the same if the turn begins again.

    Args:
        effect: The effect that runs the handlers.
        handler: The name of the handler.

    Returns:
        32 hexadecimal digits.
    """
    session = effect.session
    where = [
        session.conversation_id,
        # A turn that begins again has the same time, and so the same key.
        session.time,
        session.turn,
        effect.point.value,
        effect.number,
        handler,
    ]
    return sha256_of(json.dumps(where))[:32]


def occasion_of(effect: RunHandlers, context: JsonMap, key: str = "") -> Occasion:
    """Make the occasion of an effect.

    Args:
        effect: The effect that runs the handlers.
        context: The context that earlier handlers left.
        key: The idempotency key of the run.

    Returns:
        The occasion.
    """
    session = effect.session
    # After the move, the session has the target as its state.
    arrived = effect.point is Point.POST_TRANSITION
    return Occasion(
        point=effect.point,
        conversation_id=session.conversation_id,
        state=session.state,
        previous_state=session.previous_state,
        target=session.state if arrived else effect.target,
        context=copied(context),
        system=session.system_names(),
        user_input=session.user_input,
        updated=effect.updated,
        text=effect.text,
        error=effect.error,
        key=key,
    )


def _read(handler: Handler, at: Point, value: object) -> HandlerResult:
    forbids, words = at is Point.PRE_TRANSITION, at in (Point.POST_PROCESSING, Point.ERROR)
    match value:
        case None:
            return HandlerResult(handler=handler.name)
        case Mapping():
            return HandlerResult(handler=handler.name, changes=dict(value))
        case Veto() if forbids:
            reason = "" if value.reason is None else mended(str(value.reason))
            return HandlerResult(handler=handler.name, veto=reason)
        case str() if words:
            return HandlerResult(handler=handler.name, text=mended(value))
    raise TypeError(
        f"a handler at {at.value} returns a dict of changes or None"
        + (", or a Veto" if forbids else "")
        + (", or a text" if words else "")
        + f", not {type(value).__name__}"
    )


async def run(
    handler: Handler, occasion: Occasion, *, mode: ErrorMode, timeout: float | None
) -> HandlerResult:
    """Call one handler.

    Args:
        handler: The handler.
        occasion: The data that it receives.
        mode: "raise" stops the turn if the handler fails.
        timeout: Seconds that are left for the turn; None: no limit.

    Returns:
        The result. Its `error` is set if the handler failed and the turn goes on.

    Raises:
        HandlerError: The handler failed, and its failure stops the turn.
    """
    limits = [limit for limit in (handler.timeout, timeout) if limit is not None]
    try:
        function = partial(handler.function, occasion)
        name = f"llm_fsm handler {handler.function!r:.60}"
        value = await called(min(limits, default=math.inf), function, name)
        return _read(handler, occasion.point, value)
    except asyncio.CancelledError:
        if is_cancelled():
            raise
        return failure(handler, occasion.point, RuntimeError("it was cancelled from inside"), mode)
    except Exception as error:
        return failure(handler, occasion.point, error, mode)


def failure(handler: Handler, at: Point, error: Exception, mode: ErrorMode) -> HandlerResult:
    """Return the result of a failed handler or condition.

    Args:
        handler: The handler.
        at: The point at which it failed.
        error: The error that it raised.
        mode: "raise" stops the turn.

    Returns:
        The result, with the error as text.

    Raises:
        HandlerError: The failure stops the turn.
    """
    late = isinstance(error, TimeoutError) or (isinstance(error, CallFault) and error.lost)
    what = "it ran out of time" if late else told(error)
    failed = failure_of("handler", handler.name, error, handler.function)
    if mode == "raise" or handler.critical:
        raised = HandlerError(
            f"handler {handler.name!r} failed at {at.value}: {what}",
            handler=handler.name,
            point=at.value,
        )
        raised.failed = failed
        raise raised from error
    return HandlerResult(handler=handler.name, error=what, failed=failed)
