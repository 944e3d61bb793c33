"""Rules about tasks, waits and tools: limits, results, tools, and waits that nothing ends."""

from __future__ import annotations

from llm_fsm._text import listed
from llm_fsm.conditions.coercion import is_number
from llm_fsm.definition.graph import components, shortest_round
from llm_fsm.lint.document import Document, Placed, texts_of_states
from llm_fsm.lint.facts.prompt_budget import shared_tokens
from llm_fsm.lint.facts.suggestions import quoted, route
from llm_fsm.lint.graph import Arc, arcs_from, kind_of, states_of_kind
from llm_fsm.lint.logics import compiled_rules
from llm_fsm.lint.rule import Fault, Faults, lint_rule

_REPLY_TOKENS = 50
"""The fewest tokens of a short reply."""


@lint_rule("T517", "warning", needs_form=True)
def hopeless_setting(document: Document) -> Faults:
    """A limit or a setting of the model is too low for the machine to work.

    Why it is bad:
    Every conversation fails: no call is allowed, a reply cannot end, or the model does not see the conversation.

    Example:
        "limits": {"llm_calls": 0}, "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "bye"}]},
                                               "bye": {"purpose": "Say goodbye"}}

    Fix:
    Write a higher number, or remove the key.
    """
    yield from _limits(document)
    for owner in (document.root, *document.states.values()):
        yield from _below(
            owner.at("model"), "max_tokens", _REPLY_TOKENS, "a reply is cut off before it ends"
        )
    history = document.root.at("history")
    yield from _below(history, "max_exchanges", 1, "the model sees nothing of what was said before")
    yield from _below(
        history, "max_message_chars", 20, "the model sees hardly a word of each message"
    )
    yield from _below(
        history, "max_tokens", 50, "the model sees hardly anything of what was said before"
    )


def _limits(document: Document) -> Faults:
    limits = document.root.at("limits")
    kinds = {name: kind_of(document, name) for name in document.states}
    speaking = next((name for name, kind in kinds.items() if kind == "converse"), None)
    if speaking is not None:
        yield from _below(
            limits, "llm_calls", 1, f'no message can be answered, the first in state "{speaking}"'
        )
        needed = shared_tokens(document)
        yield from _below(
            limits, "tokens", needed, f"a single prompt takes about {needed:,} tokens"
        )
    if any(state.get("tools") for state in document.states.values()):
        yield from _below(
            limits, "tool_calls", 1, "no tool can be called, although states list tools"
        )
    if speaking is not None or "task" in kinds.values():
        yield from _below(limits, "seconds", 1, "hardly a model answers in that time")


def _below(placed: Placed, key: str, least: float, why: str) -> Faults:
    value = placed.get(key)
    if is_number(value) and value < least:
        yield Fault(f'"{key}" {value:g}: {why}', pointer=f"{placed.pointer}/{key}")


_FIGURES = ("turns", "llm_calls", "tokens", "money")


@lint_rule("T519", "warning", needs_form=True)
def idle_limit(document: Document) -> Faults:
    """A limit for a conversation, a user or a day stops nothing.

    Why it is bad:
    It has no figure. Or the day allows less than one user, so nobody reaches the limit for a user.

    Example:
        "limits": {"per": {"user": {"by": "metadata.user", "money": 5}, "day": {"money": 2}}},
        "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "bye"}]},
                   "bye": {"purpose": "Say goodbye"}}

    Fix:
    Write `turns`, `llm_calls`, `tokens` or `money`, and allow a day more than a user.
    """
    limits = document.root.at("limits")
    for quota in limits.members("per"):
        if quota.value.keys().isdisjoint(_FIGURES):
            yield Fault(
                f"the limit for a {quota.name} has no figure",
                pointer=quota.pointer,
                hint='add "turns", "llm_calls", "tokens" or "money"',
            )
    per = limits.at("per")
    for key in _FIGURES:
        yield from _below(per.at("day"), key, per.at("user").get(key, 0), "one user may use more")


_LIMITS = ("auto_steps", "llm_calls", "seconds", "tokens", "money")


@lint_rule("T508", "info", at_key=True)
def missing_limit(document: Document) -> Faults:
    """A loop of states works without asking anybody, and the machine sets no limits.

    Why it is bad:
    Conditions and model calls decide how often it repeats. By default, a turn stops after 25 steps and 10 model calls.
    That may be too late for a budget, or too early for the work.

    Example:
        "states": {"write": {"kind": "task", "purpose": "Write it", "transitions": [{"target_state": "test"}]},
                   "test": {"kind": "decide", "transitions": [
                       {"target_state": "done", "conditions": [{"requires_context_keys": ["good"]}]},
                       {"target_state": "write", "priority": 200}]},
                   "done": {"purpose": "Say that it is done"}}

    Fix:
    Set `limits`: `auto_steps`, `llm_calls`, `seconds`, `tokens` or `money`.
    """
    limits = document.root.at("limits").value
    if any(limits.get(key) is not None for key in _LIMITS):
        return
    alone = {
        name for name in document.states if kind_of(document, name) in ("task", "decide", "subflow")
    }
    graph = {
        name: tuple(
            dict.fromkeys(arc.target for arc in arcs_from(document)[name] if arc.target in alone)
        )
        for name in document.states
        if name in alone
    }
    for members in components(graph):
        start = members[0]
        circles = True
        if len(members) == 1:
            circles = any(after in members for after in graph[start])
        if not circles or not any(kind_of(document, name) == "task" for name in members):
            continue
        path = shortest_round(graph, start)
        yield Fault(
            f"this circle of work has no limits of its own: {route(path)}",
            pointer=document.states[start].pointer,
            hint='set "limits", such as {"auto_steps": 10, "seconds": 120}',
            path=path,
        )


@lint_rule("T506", "warning")
def key_result_without_check(document: Document) -> Faults:
    """A key result of a task has no `check`: a model judges its description, if it has one.

    Why it is bad:
    Without a check and a description, nothing defines the result, and the judge fails it. With a description, each
    attempt costs a model call, and the result is an opinion.

    Example:
        "states": {"write": {"kind": "task", "purpose": "Write the report", "key_results": [{"name": "good"}]}}

    Fix:
    Add a `check`: JsonLogic over `output`, `{"judge": "criterion"}` or `{"registered": "name"}`.
    """
    for state_id, state in document.states.items():
        judged = []
        for result in state.items("key_results"):
            name = result.get("name")
            if result.get("check") is not None or not isinstance(name, str):
                continue
            if result.text("description").strip():
                judged.append(quoted(name))
                continue
            yield Fault(
                f"nothing says when the key result {quoted(name)} is reached: neither a check nor"
                " a description",
                pointer=result.pointer,
                hint='add a "check", or a "description" for a judge',
            )
        if judged:
            yield Fault(
                f"these key results of state {quoted(state_id)} have no check, so a model judges them:"
                f" {listed(judged, 4)}",
                pointer=state.pointer + "/key_results",
                hint="what can be computed is better checked by a rule",
                level="info",
            )


@lint_rule("T511", "info", at_key=True)
def task_without_results(document: Document) -> Faults:
    """A task has no key results.

    Why it is bad:
    The output is not checked: any counts as done. A task that acts is done when its act has a result on record,
    whatever the output says of it.

    Example:
        "states": {"write": {"kind": "task", "purpose": "Write the report"}}

    Fix:
    Add `key_results` that the output must meet.
    """
    # A registered function checks its own output.
    for name, state in states_of_kind(document, "task"):
        if state.get("execute") is None and not state.get("key_results"):
            yield Fault(
                f"task {quoted(name)} has no key results: its output is not checked",
                pointer=state.pointer,
                hint='add "key_results"',
            )


@lint_rule("T507", "warning")
def retry_without_idempotence(document: Document) -> Faults:
    """A task that is tried again uses a tool that must not be called twice.

    Why it is bad:
    When a key result fails, the whole task is repeated, with its tool calls: a second payment, a second mail.

    Example:
        "tools": {"pay": {"registered": "pay", "at_most_once": true}},
        "states": {"buy": {"kind": "task", "purpose": "Buy it", "tools": ["pay"],
                           "key_results": [{"name": "paid", "check": {"has_context": "output.receipt"}}]}}

    Fix:
    Set `max_retries` to 0, or call the tool in its own state after the work has been checked.
    """
    once = {
        tool.name for tool in document.root.members("tools") if tool.get("at_most_once") is True
    }
    for state_id, state in states_of_kind(document, "task"):
        retries = state.get("max_retries", 3)
        if retries in (0, None) or not state.get("key_results"):
            continue
        for pointer, name in state.texts("tools"):
            if name in once:
                yield Fault(
                    f"task {quoted(state_id)} is tried up to {retries} times more,"
                    f" and its tool {quoted(name)} must not be called twice",
                    pointer=pointer,
                    hint='set "max_retries" to 0, or call the tool in a state of its own',
                )


@lint_rule("T505", "warning")
def tool_out_of_scope(document: Document) -> Faults:
    """A state lists a tool whose `scope` does not include the state.

    Why it is bad:
    Every call there is refused.

    Example:
        "tools": {"search": {"registered": "search", "scope": ["find"]}},
        "states": {"find": {"purpose": "Find it", "tools": ["search"], "transitions": [{"target_state": "tell"}]},
                   "tell": {"purpose": "Tell it", "tools": ["search"]}}

    Fix:
    Add the state to the scope, or take the tool out of the state.
    """
    scopes = {
        tool.name: set(tool.names("scope"))
        for tool in document.root.members("tools")
        if isinstance(tool.get("scope"), list)
    }
    for state_id, pointer, name in texts_of_states(document, "tools"):
        if name in scopes and state_id not in scopes[name]:
            yield Fault(
                f"tool {quoted(name)} may not be called in state {quoted(state_id)}, which lists it",
                pointer=pointer,
                hint=f'add {quoted(state_id)} to the "scope" of the tool',
            )


def _openable(document: Document, arc: Arc) -> bool:
    """Return false if a condition is the constant false. A condition that reads a value may be
    true.
    """
    if arc.target == arc.source:
        return False
    for condition in arc.conditions:
        rule = compiled_rules(document).get(condition.pointer + "/logic")
        if condition.get("logic") is False or (
            rule is not None and rule.node.literal in (False, 0, "")
        ):
            return False
    return True


@lint_rule("T509", "warning", at_key=True)
def wait_without_way_out(document: Document) -> Faults:
    """A `wait` state has neither a time-out with a target nor a transition that an answer can open.

    Why it is bad:
    A run that comes here waits for ever.

    Example:
        "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "approval"}]},
                   "approval": {"kind": "wait", "wait_for": "manager"}}

    Fix:
    Add a transition, or `timeout` and `on_timeout`.
    """
    for name, state in states_of_kind(document, "wait"):
        timed = state.get("timeout") is not None and state.get("on_timeout") is not None
        if not timed and not any(_openable(document, arc) for arc in arcs_from(document)[name]):
            yield Fault(
                f"nothing ends the wait in state {quoted(name)}: no transition, and no time-out"
                " that leads on",
                pointer=state.pointer,
                hint='add "transitions", or "timeout" and "on_timeout"',
            )
