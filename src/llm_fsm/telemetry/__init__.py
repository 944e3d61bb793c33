"""OpenTelemetry: traces and metrics of turns by the GenAI conventions, built from the event stream.

It reads the events of `observe`. It makes spans `invoke_agent` (a turn), `chat` (a model call) and
`execute_tool`, with state, transition and conversation as attributes, and metrics of tokens, cost
and durations. Texts of people, models and tools are left out unless you ask for them. `names.py`
holds every name; `instrument.py` makes the spans. Open that one first. Needs the extra `otel`;
without it, `instrument` works with the API alone and exports nothing.
"""

from llm_fsm.telemetry.export import export
from llm_fsm.telemetry.instrument import instrument

__all__ = ["export", "instrument"]
