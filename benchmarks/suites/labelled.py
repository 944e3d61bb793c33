"""The report of a set with labels, SGD or STAR: a row for each part, and the turns that are wrong."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from benchmarks.suites import bare_prompt, sgd, star
from benchmarks.suites.files import Unusable
from benchmarks.suites.play import Part, faults, judged, play, print_list, share, table
from llm_fsm.llm.base import LLM
from llm_fsm.llm.registry import resolve
from llm_fsm.testing.evaluation.dialogue import Dialogue
from llm_fsm.testing.evaluation.judge import JudgedTurn

HEAD_SGD = (
    *("service", "dialogues", "turns", "joint goal", "intent right", "values right"),
    *("invented", "harmful", "calls a turn"),
)
HEAD_STAR = ("task", "dialogues", "turns", "action right", "calls a turn")


def report(options: argparse.Namespace) -> None:
    """Play the parts of SGD or STAR, and print a row for each.

    Raises:
        Unusable: The data is missing or has another form.
        ConfigurationError: The model cannot be used.
    """
    is_sgd = options.suite == "sgd"
    chosen = _chosen(options)
    model = _model(options)
    print(f"{_title(options)}\n")
    rows: list[Sequence[object]] = []
    turns: list[JudgedTurn] = []
    wrong: list[str] = []
    talks = 0
    for part in chosen:
        dialogues = _dialogues(part, model, options)
        wrong += faults(part, dialogues)
        played = [turn for turn in judged(dialogues) if turn.wanted]
        turns += played
        talks += len(dialogues)
        rows.append([part.name, len(dialogues), *_cells(played, is_sgd=is_sgd)])
    rows.append(["all", talks, *_cells(turns, is_sgd=is_sgd)])
    print(table(HEAD_SGD if is_sgd else HEAD_STAR, rows))
    if model is not None:
        print(f"\n{_costs(turns)}")
    print_list("Labels left out, with the reason:", _left_out(chosen))
    print_list("Turns that are not right:", wrong)


def _chosen(options: argparse.Namespace) -> list[Part]:
    is_sgd = options.suite == "sgd"
    every = sgd.parts(options.data, renamed=options.renamed) if is_sgd else star.parts(options.data)
    chosen = [part for part in every if not options.only or part.name in options.only]
    if not chosen:
        known = ", ".join(part.name for part in every)
        raise Unusable(f"{options.data}: there is nothing to play; it has: {known or 'nothing'}")
    return chosen


def _model(options: argparse.Namespace) -> LLM | None:
    if not options.model and not options.base_url:
        return None
    return resolve(options.model, base_url=options.base_url, environ=os.environ)


def _title(options: argparse.Namespace) -> str:
    words = [options.suite, *(["renamed"] if options.renamed else [])]
    words += ["the bare prompt"] if options.bare else []
    words += [f"--reply {options.reply}"] if options.reply else []
    return f"{', '.join(words)}: {options.model or 'the right replies'}"


def _dialogues(part: Part, model: LLM | None, options: argparse.Namespace) -> list[Dialogue]:
    if model is None:
        return play(part, turns=options.turns, timeout=options.timeout, reply_form=options.reply)
    so_far: list[JudgedTurn] = []

    def told(turn: JudgedTurn) -> None:
        so_far.append(turn)
        print(_line(part.name, so_far), file=sys.stderr, flush=True)

    if options.bare:
        return bare_prompt.play(
            part, model, turns=options.turns, timeout=options.timeout, told=told
        )
    return play(
        part,
        model,
        turns=options.turns,
        timeout=options.timeout,
        reply_form=options.reply,
        told=told,
    )


def _line(name: str, so_far: Sequence[JudgedTurn]) -> str:
    """Return the figures of the turns so far, for somebody who waits."""
    turns = [turn for turn in so_far if turn.judged and turn.wanted]
    joint = sum(map(_is_joint, turns))
    moved = sum(turn.moved for turn in turns)
    kept = sum(turn.kept for turn in turns)
    invented = sum(len(turn.invented) for turn in turns)
    harmful = sum(len(turn.harmful) for turn in turns)
    return (
        f"{name} {len(so_far)}: joint goal {joint}, state {moved}, values {kept} of {len(turns)}; "
        f"invented {invented}, harmful {harmful}; {_costs(so_far)}; {so_far[-1].why or 'right'}"
    )


def _costs(turns: Sequence[JudgedTurn]) -> str:
    whole = max(1, len(turns))
    read = sum(turn.input_tokens for turn in turns) / whole
    written = sum(turn.output_tokens for turn in turns) / whole
    seconds = sum(turn.seconds for turn in turns) / whole
    return f"a turn: {read:.0f} tokens in, {written:.0f} out, {seconds:.1f} s"


def _cells(turns: Sequence[JudgedTurn], *, is_sgd: bool) -> list[object]:
    whole = len(turns)
    moved = share(sum(turn.moved for turn in turns), whole)
    calls = f"{sum(turn.calls for turn in turns) / max(1, whole):.2f}"
    if not is_sgd:
        return [whole, moved, calls]
    joint = sum(map(_is_joint, turns))
    kept = sum(turn.kept for turn in turns)
    invented = sum(len(turn.invented) for turn in turns)
    harmful = sum(len(turn.harmful) for turn in turns)
    return [whole, share(joint, whole), moved, share(kept, whole), invented, harmful, calls]


def _is_joint(turn: JudgedTurn) -> bool:
    """Return true if every value is right, and none is invented."""
    return not turn.wrong and not turn.invented


def _left_out(parts: Sequence[Part]) -> list[str]:
    found: list[str] = []
    for part in parts:
        found += [f"{part.name} {reason}" for reason in part.left_out]
    return found
