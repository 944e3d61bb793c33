"""Lines of input: numbered, decoded, bounded, whatever chunks they come in."""

from __future__ import annotations

import io
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_fsm.cli.pipe import Line, PipeLines
from llm_fsm.turn.turn_state import MAX_MESSAGE_CHARS


class Dripping(io.BytesIO):
    """A stream that gives at most `size` bytes at once."""

    def __init__(self, data: bytes, size: int) -> None:
        super().__init__(data)
        self.chunk = size

    def read1(self, size: int | None = -1, /) -> bytes:
        return super().read1(self.chunk)


def texts(data: bytes, chunk: int = 65_536) -> list[str | None]:
    return [line.text for line in PipeLines(Dripping(data, chunk))]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"\n\n  \n", []),
        (b"a\nb\n", ["a", "b"]),
        (b"a\n\nb", ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"\xef\xbb\xbfa\nb", ["a", "b"]),
        (" ä 😀 \n".encode(), [" ä 😀 "]),
        (b"a\x1b[2Jb\x00c\n", ["a\x1b[2Jb\x00c"]),
        ("a\u2028b\x85c\x0cd\n".encode(), ["a\u2028b\x85c\x0cd"]),
        (b"a\nb\xff\nc\n", ["a", None, "c"]),
    ],
)
@pytest.mark.parametrize("chunk", [1, 3, 65_536])
def test_each_line_is_a_message(data: bytes, expected: list[str | None], chunk: int) -> None:
    assert texts(data, chunk) == expected


def test_faults_name_the_line() -> None:
    found = list(PipeLines(io.BytesIO(b"\nok\na\xc3\n" + b"x" * (MAX_MESSAGE_CHARS + 1) + b"\n")))
    assert found[0] == Line(2, "ok")
    assert found[1] == Line(3, None, "is not UTF-8 at byte 2")
    assert found[2].number == 4
    assert "at most 100000" in found[2].fault


@pytest.mark.parametrize("end", [b"\nnext\n", b""])
def test_a_line_without_end_takes_no_memory_and_no_other_line_with_it(end: bytes) -> None:
    lines = PipeLines(Dripping(b"y" * 3_000_000 + end, 50_000))
    found = []
    for line in lines:
        found.append(line)
        assert len(lines._buffer) < 600_000
    assert found[0] == Line(1, None, "is longer than 100,000 characters")
    assert [line.text for line in found[1:]] == (["next"] if end else [])


def test_the_longest_message_passes() -> None:
    message = "😀" * MAX_MESSAGE_CHARS
    assert texts(message.encode() + b"\n") == [message]


@given(
    st.lists(
        st.text(
            st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\ufeff"), min_size=1
        )
    )
)
def test_what_was_written_is_what_is_read(messages: list[str]) -> None:
    data = "\n".join(messages).encode()
    assert texts(data, 7) == [message for message in messages if message.strip()]


def test_what_waits_is_counted_without_waiting_for_more() -> None:
    reading, writing = os.pipe()
    with open(reading, "rb") as stream, open(writing, "wb", buffering=0) as pipe:
        pipe.write(b"one\ntwo\n\nthree\n")
        lines = PipeLines(stream)
        assert next(iter(lines)).text == "one"
        assert lines.unread() == 2
