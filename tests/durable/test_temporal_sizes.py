"""Chunks of a batch stay below what Temporal takes in one call, in bytes and in number."""

from __future__ import annotations

import asyncio
import json
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from temporalio.converter import DataConverter

from llm_fsm.durable import temporal
from llm_fsm.durable.temporal.client import CHUNK_BYTES, parts_of
from llm_fsm.engine.batch import BatchLine, read_lines
from temporal_server import TemporalServer
from temporal_worker import machines
from temporal_workers import begin, end

TAKEN = 2 * 1024 * 1024
"""Bytes of one payload that Temporal takes."""
OVERHEAD = len(json.dumps(astuple(BatchLine(number=1, conversation_id="b/1", input=""))))


def line_of(size: int, letter: str = "x") -> BatchLine:
    """A line of so many bytes as JSON."""
    each = len(json.dumps(letter)) - 2
    return BatchLine(number=1, conversation_id="b/1", input=letter * ((size - OVERHEAD) // each))


def sizes(lines: list[BatchLine]) -> list[int]:
    return [len(part) for part in parts_of(lines)]


def payload_of(part: Any) -> int:
    chunk = temporal.Chunk("n" * 500, 100, [list(astuple(line)) for line in part], "0" * 64)
    [payload] = DataConverter.default.payload_converter.to_payloads([chunk])
    return payload.ByteSize()


@pytest.mark.parametrize(
    ("lines", "parts"),
    [
        ([], []),
        ([line_of(100)] * 60, [25, 25, 10]),
        ([line_of(150_000)] * 25, [13, 12]),
        ([line_of(CHUNK_BYTES)] * 2, [1, 1]),
        ([line_of(100), line_of(CHUNK_BYTES), line_of(100)], [1, 1, 1]),
        ([line_of(100), line_of(CHUNK_BYTES + 1), line_of(100)], [1, 1, 1]),
        ([line_of(900_000)] * 5, [2, 2, 1]),
        ([line_of(500_000, "é")] * 5, [4, 1]),
        ([line_of(500_000, "🙂")] * 5, [4, 1]),
        ([line_of(500_000, '"')] * 5, [4, 1]),
    ],
)
def test_chunks_are_cut_by_number_and_by_bytes(lines: list[BatchLine], parts: list[int]) -> None:
    assert sizes(lines) == parts


LINES = st.builds(line_of, st.integers(OVERHEAD, 300_000), st.sampled_from(["x", "é", "🙂", '"']))


@settings(max_examples=20, deadline=None)
@given(st.lists(LINES, max_size=30))
def test_no_chunk_is_larger_than_temporal_takes(lines: list[BatchLine]) -> None:
    parts = list(parts_of(lines))
    assert [line for part in parts for line in part] == lines
    for part in parts:
        assert 1 <= len(part) <= temporal.CHUNK
        assert len(part) == 1 or payload_of(part) <= TAKEN


def test_a_line_that_is_just_small_enough_is_taken() -> None:
    assert payload_of([line_of(CHUNK_BYTES)]) <= TAKEN


def test_a_line_that_is_too_large_fails_alone_and_says_its_size(
    server: TemporalServer, folder: Path
) -> None:
    store, ledger = f"sqlite:///{folder}/sizes.db", folder / "sizes.ledger"
    words = ["x" * 150_000] * 15 + [
        "y" * (CHUNK_BYTES - 200),
        "z" * (CHUNK_BYTES + 1),
        "é" * 300_000,
    ]
    text = "\n".join(
        json.dumps({"messages": ["hello"], "context": {"note": word}}) for word in words
    )
    batch = read_lines(text.encode(), "b", talks=True)
    results: list[dict[str, Any]] = []

    async def played() -> None:
        machine, _ = machines(store, str(ledger))
        client = await temporal.connect(server.address)
        worker = begin(server, store, ledger)
        try:
            await temporal.play_chunks(client, machine, "b", batch.lines, results.append, limit=5)
        finally:
            end([worker])
            await machine.close()

    asyncio.run(played())
    failed = [result for result in results if result["outcome"] == "error"]
    assert sorted(result["line"] for result in results) == list(range(1, len(words) + 1))
    [large] = failed
    assert large["line"] == 17
    assert "it has 2,000,0" in large["error"]
    assert "Temporal takes 2,000,000" in large["error"]
