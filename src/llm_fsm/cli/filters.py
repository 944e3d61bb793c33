"""Options that choose stored conversations: by the labels that they began with, and by their last
use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from llm_fsm.stores.base import ListQuery, checked_metadata

_PAGE = 1000


label_option = click.option(
    "--label",
    "labels",
    metavar="KEY=TEXT",
    multiple=True,
    help="Only conversations that began with this label (metadata), such as user=ada. Several must all match.",
)


def filters(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--label` and `--before`, as the parameters `labels` and `before`."""
    before = click.option(
        "--before",
        metavar="DATE",
        type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"]),
        help="Only conversations whose last turn was before this day (UTC).",
    )
    return label_option(before(function))


def filter_of(
    labels: Sequence[str], before: datetime | None, *, limit: int = _PAGE, newest: bool = False
) -> ListQuery | None:
    """Return the query of the given filters; None if none was given.

    Args:
        labels: Each as KEY=TEXT.
        before: A time, in UTC.
        limit: Lines of a page.
        newest: True if the newest conversation comes first.

    Raises:
        click.UsageError: A label is none.
    """
    if not labels and before is None:
        return None
    moment = None if before is None else before.replace(tzinfo=UTC).timestamp()
    return ListQuery(
        metadata=metadata_of(labels),
        updated_before=moment,
        limit=limit,
        order="-updated" if newest else "id",
    )


def metadata_of(labels: Sequence[str]) -> dict[str, str]:
    """Return the labels that `--label` names. Raises UsageError."""
    found: dict[str, str] = {}
    for label in labels:
        key, equals, text = label.partition("=")
        if not equals:
            raise click.UsageError(f"--label is KEY=TEXT, such as user=ada, not {label!r}")
        if found.setdefault(key, text) != text:
            raise click.UsageError(f"--label {key}= has two texts, and a conversation has one")
    try:
        return checked_metadata(found)
    except ValueError as error:
        raise click.UsageError(f"--label: {error}") from error
