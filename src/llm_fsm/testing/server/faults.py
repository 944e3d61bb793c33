"""Failures of a model's server, ready for a script of `serve_scripted`.

Example:
    with serve_scripted([FAULTS["half a JSON"], {"message": "…"}]) as server: …
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType

from llm_fsm._json import JsonDict, JsonMap, as_text
from llm_fsm.testing.server.completions import chunks, completion, failure
from llm_fsm.testing.server.http import HttpReply


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultyStream:
    """A model's text whose stream goes wrong. A request without streaming receives it whole.

    Attributes:
        words: A text, or a dict that is sent as JSON.
        size: Characters of one event.
        cut_after: Bytes after which the connection breaks; None: it does not.
        doubled: True sends every event twice.
        done: False does not announce the end.
        split: Bytes of one piece on the wire, even within a character; None: one piece.
        pause: Seconds between the pieces.
    """

    words: str | JsonDict
    size: int = 16
    cut_after: int | None = None
    doubled: bool = False
    done: bool = True
    split: int | None = None
    pause: float = 0.0

    @property
    def text(self) -> str:
        """The text as a model writes it."""
        return as_text(self.words)

    def pieces(self, body: JsonMap, number: int) -> Iterator[bytes]:
        """Yield the bytes of an answer, up to the point where it breaks.

        Args:
            body: The request.
            number: Number of the request, from 1.

        Returns:
            The bytes, in pieces.
        """
        events = chunks(self.text, body, number, size=self.size)
        if not self.done:
            events = (event for event in events if event != b"data: [DONE]\n\n")
        if self.doubled:
            events = chain.from_iterable((event, event) for event in events)
        whole = b"".join(events)[: self.cut_after]
        step = self.split or len(whole) or 1
        return (whole[start : start + step] for start in range(0, len(whole), step))


_WORDS = '{"transition": {"target_state": "'
_SOUND = completion("Hello.", {}, 1)


def _said(text: str) -> HttpReply:
    """Return a sound answer with this text."""
    return HttpReply(body=completion(text, {}, 1))


FAULTS: Mapping[str, HttpReply] = MappingProxyType(
    {
        "hangs": HttpReply(delay=math.inf),
        "one byte a second": HttpReply(body=_SOUND, pace=1.0),
        **{
            f"status {status}": HttpReply(status=status, body=failure("no"))
            for status in range(400, 600)
        },
        **{
            f"status {status}": HttpReply(status=status, headers={"location": "/"})
            for status in (301, 302, 307, 308)
        },
        "status 204": HttpReply(status=204),
        "429 with Retry-After": HttpReply(
            status=429, body=failure("slow down"), headers={"retry-after": "1"}
        ),
        "429 with a long Retry-After": HttpReply(status=429, headers={"retry-after": "86400"}),
        "empty": HttpReply(),
        "HTML": HttpReply(
            body="<html><body>Welcome</body></html>", headers={"content-type": "text/html"}
        ),
        "half a JSON": HttpReply(body=json.dumps(_SOUND)[:60]),
        "two objects": HttpReply(body=json.dumps(_SOUND) * 2),
        "a list": HttpReply(body=[_SOUND]),
        "no choices": HttpReply(body={**_SOUND, "choices": []}),
        "an error with status 200": HttpReply(body=failure("overloaded")),
        "10 MB": HttpReply(body=completion("x" * 10_000_000, {}, 1)),
        "cut in the middle": HttpReply(body=_SOUND, cut_after=40),
        "cut before the first byte": HttpReply(body=_SOUND, cut_after=0),
        "no words": _said(""),
        "words that are HTML": _said("<html><body>Welcome</body></html>"),
        "words that are half a JSON": _said(_WORDS),
        "words that are two objects": _said(f'{_WORDS}a"}}}} {_WORDS}b"}}}}'),
        "words that are prose": _said("Sure, I can do that!"),
        "NUL and half a surrogate": _said('\x00 \ud800 {"message"'),
    }
)
"""A name to one answer. The last ones are sound answers of the server, with text of the model that
is no reply.
"""
