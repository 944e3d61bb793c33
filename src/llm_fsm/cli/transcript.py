"""A conversation as a document: JSON or Markdown, from its turn records."""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec.structs import asdict

from llm_fsm._json import JsonDict, JsonMap, KeyTest, of_kind
from llm_fsm._text import visible
from llm_fsm.cli.terminal import escape
from llm_fsm.session import events as ev
from llm_fsm.session.redaction import blotted, shown_values
from llm_fsm.session.session import Session
from llm_fsm.session.turn_record import Records, TurnRecord, events_of, without_undone
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.secrets import secrets_in


def turns(records: Records, is_secret: KeyTest) -> list[JsonDict]:
    """Turn by turn, without those that were taken back: message, reply, moves, keys set, usage.

    Values that secret keys ever had are redacted out of what was said.
    """
    events = list(events_of(records))
    secrets = secrets_in(events, is_secret)
    return [blotted(secrets, _turn(record)) for _, record in without_undone(records)]


def _turn(record: TurnRecord) -> JsonDict:
    heard = record.user_message
    moves = [move for event in record.events if (move := _move(event)) is not None]
    keys: list[str] = []
    places: JsonDict = {}
    for event in record.events:
        if isinstance(event, ev.ContextSet):
            keys += event.values
            places.update(event.quotes)
    migrated = [event.definition for event in of_kind(record.events, ev.Migrated)]
    return {
        "turn": record.turn,
        "kind": record.kind,
        "time": next(
            (moment(event.time) for event in record.events if isinstance(event, _TIMED)), None
        ),
        "user": None if heard is None else heard.text,
        "reply": record.text,
        **({"by": record.by} if record.by else {}),
        "moves": moves,
        "keys_set": list(dict.fromkeys(keys)),
        **({"quotes": places} if places else {}),
        "usage": asdict(record.usage),
        **({"definition": migrated[-1]} if migrated else {}),
    }


def _move(event: ev.Event) -> dict[str, str] | None:
    """Return where an event led; None for one that moved nothing."""
    match event:
        case ev.StateEntered():
            return {"from": event.previous, "to": event.state, "by": event.by}
        case ev.FlowPushed(kind="subflow"):
            return {
                "from": event.state,
                "to": event.entered,
                "by": f"subflow {visible(event.flow)}",
            }
        case ev.FlowReturned():
            return {"from": event.ended, "to": event.state, "by": f"back, {event.how}"}
        case _:
            return None


_TIMED = (ev.Started, ev.UserSaid)


def moment(seconds: float) -> str:
    """Seconds since the epoch as ISO 8601 in UTC, to the second; what no calendar has as a number."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{seconds!r} s"


def document(program: CompiledMachine, session: Session, records: Records) -> JsonDict:
    """The whole conversation as JSON data."""
    return {
        "conversation": session.conversation_id,
        "definition": program.definition.name,
        "state": session.state,
        "ended": session.ended,
        "context": shown_values(session.root_context(), program.is_secret),
        "turns": turns(records, program.is_secret),
    }


def markdown(program: CompiledMachine, session: Session, records: Records) -> str:
    """The whole conversation for a reader."""
    lines = [
        f"# {visible(program.definition.name)}",
        "",
        f"Conversation `{session.conversation_id}`",
        "",
    ]
    for turn in turns(records, program.is_secret):
        if turn["user"] is not None:
            lines += _quoted("User", turn["user"])
        if turn["reply"]:
            lines += _quoted(visible(turn.get("by", "Machine")), turn["reply"])
        for move in turn["moves"]:
            lines += [f"*{move['from']} → {move['to']}*", ""]
    return "\n".join(lines)


def _quoted(who: str, text: str) -> list[str]:
    quoted = [f"> {line}".rstrip() for line in escape.words(text).split("\n")]
    return [f"**{who}**", "", *quoted, ""]


def plain(turn: JsonMap) -> str:
    """One turn for the terminal, its words indented."""
    usage = turn["usage"]
    head = f"turn {turn['turn']}" + (f" · {turn['time']}" if turn["time"] else "")
    if turn["kind"] != "message":
        head += f" · {turn['kind']}"
    if usage["calls"]:
        tokens = f"{usage['input_tokens']:,} tokens in, {usage['output_tokens']:,} out"
        head += f" · {escape.plural(usage['calls'], 'model call')}, {tokens}"
    lines = [visible(head)]
    if "definition" in turn:
        lines.append(visible(f"  goes on under the definition {turn['definition'][:12]}"))
    for who, text in (("user", turn["user"]), (visible(turn.get("by", "machine")), turn["reply"])):
        if text:
            lines.append(f"  {who}: " + escape.words(text).replace("\n", "\n    "))
    moves = [f"  {move['from']} → {move['to']} ({move['by']})" for move in turn["moves"]]
    lines += map(visible, moves)
    if turn["keys_set"]:
        lines.append("  set: " + visible(", ".join(turn["keys_set"])))
    for key, (message, start, end) in turn.get("quotes", {}).items():
        place = f"said in message {message}, characters {start + 1} to {end}"
        lines.append(visible(f"  {key}: {place}"))
    return "\n".join(lines)
