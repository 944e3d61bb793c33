"""A model that tries the replies of a plan, and answers plainly to everything else."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from llm_fsm.session.messages import LLMRequest, ModelReply
from llm_fsm.testing.generate.planner import Plan
from llm_fsm.testing.generate.values import samples
from llm_fsm.testing.scenarios.models import Reply
from llm_fsm.testing.scenarios.scripted_model import Scripted

_MOST_REPLIES = 12
"""The most replies of one step; then the plan is given up."""
_WORDS = "All right."
_NO_REPLY = "{"


class Improviser(Scripted):
    """Answers in one plan. `tasks` maps the states that work to their function; `told` are the replies of a step."""

    def __init__(self, tasks: Collection[str], spoken: Collection[str], plan: Plan) -> None:
        super().__init__(tasks)
        self.told: list[dict[str, Any]] = []
        self._spoken = spoken
        self._plan = plan
        self._wanted: list[dict[str, Any]] = []

    def step(self, number: int, replies: Sequence[Reply]) -> None:
        """Prepare the replies of a step; unused ones come first."""
        act = self._plan.acts[number - 1] if number else None
        wanted: list[dict[str, Any]] = []
        if act is not None and act.garbled:
            wanted += [{"raw": _NO_REPLY}, {"raw": _NO_REPLY}]
        elif act is not None and act.kind == "say":
            reply = {"message": _WORDS, **({"set": dict(act.update)} if act.update else {})}
            wanted.append({**reply, **({"to": act.to} if act.to is not None else {})})
        works = self._plan.outputs if act is None else act.outputs
        wanted += [{"raw": _as_text(output)} for state, output in works if state in self._spoken]
        self._wanted, self.told = [*self._wanted, *wanted], []
        super().step(number, replies)

    def done(self, secrets: Any) -> str | None:  # noqa: ARG002
        """Return the missing replies. A plan that asks for too many replies is given up."""
        return self.lacking

    async def complete(self, request: LLMRequest) -> ModelReply:
        """Return the next reply.

        Raises:
            ModelError: The step has used too many replies.
        """
        if len(self.told) < _MOST_REPLIES or self._wanted:
            judges = request.state in self._tasks and request.schema is not None
            reply = self._wanted.pop(0) if self._wanted and not judges else self._plain(request)
            self.told.append(reply)
            self._replies = [*self._replies, Reply.model_validate(reply)]
        return await super().complete(request)

    def _plain(self, request: LLMRequest) -> dict[str, Any]:
        schema = {} if request.schema is None else request.schema.schema
        members = schema.get("properties", {})
        if "verdicts" in members:
            names = members["verdicts"]["items"]["properties"]["name"].get("enum", [])
            passed = self._plan.refuses != "judge"
            return {"raw": {"verdicts": [{"name": name, "reason": "", "passed": passed} for name in names]}}
        if schema and "transition" not in members:
            return {"raw": next(iter(samples(schema, schema.get("$defs"))), {})}
        return {"message": _WORDS}


def _as_text(output: Any) -> str:
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
