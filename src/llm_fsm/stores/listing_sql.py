"""Listings as SQL, for stores with the tables `conversations` and `labels`.

A statement holds only the conditions that a query has, so that the database can use its indexes.
Values are bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from llm_fsm._json import JsonDict
from llm_fsm.stores.base import ANY_PAUSE, ListQuery

_BEYOND = "\U0010ffff" * 201
"""It is longer than any id, so no id with the same beginning sorts after it."""
_COLUMNS = (
    "c.id AS id, c.definition, c.state, c.ended, c.version, c.created, c.updated AS updated, c.definition_sha, "
    "c.paused"
)
_ORDERS = {"id": "id", "updated": "updated, id", "-updated": "updated DESC, id DESC"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The words that differ between databases.

    Attributes:
        mark: Returns the placeholder of a named value.
        ended: Both values of the column `ended`, if the indexes for listings have it before the id;
            None if not.
        unindexed: A prefix of a column that keeps the database from using an index of it; "" if it
            needs none.
        among: A condition that a value is one of several, as a format of `value` and `mark`.
        several: Returns several texts in the form that `among` takes.
        labels: An expression for the labels of the conversation `c.id`, as a JSON object.
        beside: Joins the table before it with its conversations, and reads that table first.
        told: The end of the statement that accepts a message, which wakes workers; "" if it cannot.
    """

    mark: Callable[[str], str]
    ended: tuple[int, int] | None
    unindexed: str
    among: str
    several: Callable[[list[str]], Any]
    labels: str
    beside: str
    told: str


@dataclass(slots=True)
class Where:
    """The conditions of a statement, and its values."""

    dialect: Dialect
    conditions: list[str] = field(default_factory=list)
    values: JsonDict = field(default_factory=dict)

    def bind(self, name: str, value: Any) -> str:
        """Bind a value, and return its placeholder."""
        self.values[name] = value
        return self.dialect.mark(name)

    def add(self, condition: str) -> None:
        """Add a condition without a value."""
        self.conditions.append(condition)

    def given(self, condition: str, name: str, value: Any) -> None:
        """Add a condition, which has `{}` in place of its value, unless the value is None."""
        if value is not None:
            self.add(condition.format(self.bind(name, value)))

    def statement(self, select: str, order: str, limit: int) -> tuple[str, JsonDict]:
        """Return a query with these conditions, and its values."""
        mark = self.bind("limit", max(limit, 0))
        return f"{select} {self.text()} ORDER BY {order} LIMIT {mark}", self.values

    def text(self, *more: str) -> str:
        """Return the clause, with further conditions."""
        conditions = (*self.conditions, *more)
        return f"WHERE {' AND '.join(conditions)}" if conditions else ""


def listing(query: ListQuery, dialect: Dialect) -> tuple[str, JsonDict]:
    """Write the statement of a listing.

    Args:
        query: The query.
        dialect: The words of the database.

    Returns:
        The statement and its values. Its columns are the fields of `Listed`.
    """
    where = _where(query, dialect)
    limit = where.bind("limit", max(query.limit, 0))
    columns = f"{_COLUMNS}, {dialect.labels}"
    merged = dialect.ended is not None and _is_merged(query)
    branches = [(f"c.ended = {value}",) for value in dialect.ended or ()] if merged else [()]
    # Each branch is in the order of an index already, so the database only merges them.
    selects = [f"SELECT {columns} FROM conversations c {where.text(*more)}" for more in branches]
    return (
        f"{' UNION ALL '.join(selects)} ORDER BY {_ORDERS[query.order]} LIMIT {limit}",
        where.values,
    )


def _is_merged(query: ListQuery) -> bool:
    """Return true if two lists in order, of the ended and of the others, are cheaper than one that
    must be sorted.
    """
    is_equal = query.definition is not None or query.state is not None
    is_found = bool(query.metadata) or query.ids is not None or query.paused is not None
    return query.order == "id" and is_equal and query.ended is None and not is_found


def counting(query: ListQuery, dialect: Dialect) -> tuple[str, JsonDict]:
    """Write the statement that counts the conversations of a query.

    Args:
        query: The query. Its `limit` does not matter.
        dialect: The words of the database.

    Returns:
        The statement and its values.
    """
    where = _where(query, dialect)
    return f"SELECT count(*) FROM conversations c {where.text()}", where.values


def _where(query: ListQuery, dialect: Dialect) -> Where:
    where = Where(dialect)
    # Few conversations wait, or have given labels or ids, so those indexes are the ones to use.
    is_found = bool(query.metadata) or query.ids is not None or query.paused is not None
    column = f"{dialect.unindexed}c" if is_found else "c"
    _add_place(where, query, column)
    for name in ("definition", "state", "ended"):
        where.given(f"{column}.{name} = {{}}", name, getattr(query, name))
    if query.paused is not None:
        where.add("c.paused <> ''")  # the condition of the index
        if query.paused != ANY_PAUSE:
            where.add(f"c.paused = {where.bind('paused', query.paused)}")
    where.given(f"{column}.updated >= {{}}", "updated_since", query.updated_since)
    where.given(f"{column}.updated < {{}}", "updated_before", query.updated_before)
    if query.begins:
        # A range, and no LIKE: it uses the index, and knows no wildcards.
        where.add(f"{column}.id >= {where.bind('begins', query.begins)}")
        where.add(f"{column}.id < {where.bind('beyond', query.begins + _BEYOND)}")
    if query.ids is not None:
        mark = where.bind("ids", dialect.several(sorted(query.ids)))
        where.add(dialect.among.format(value="c.id", mark=mark))
    for number, (key, value) in enumerate(sorted(query.metadata.items())):
        of = f"l.key = {where.bind(f'key{number}', key)} AND l.value = {where.bind(f'value{number}', value)}"
        # One condition for each label: a conversation has to have all of them.
        where.add(f"c.id IN (SELECT l.conversation FROM labels l WHERE {of})")
    return where


def _add_place(where: Where, query: ListQuery, column: str) -> None:
    """Begin after the last conversation of the page before."""
    if query.after is None:
        return
    after = where.bind("after", query.after)
    if query.order == "id":
        where.add(f"{column}.id > {after}")
        return
    compares = "<" if query.descends else ">"
    # The id as well, because several turns may have been saved at one time.
    place = f"({where.bind('after_updated', query.after_updated)}, {after})"
    where.add(f"({column}.updated, {column}.id) {compares} {place}")
