"""Find a store by its short form: "memory", "sqlite:///bots.db", a file name, or a store itself.

| form | store |
|---|---|
| `None`, `memory` | in memory |
| `sqlite:///bots.db` | SQLite, relative to the working folder |
| `sqlite:////var/lib/bots.db`, `sqlite:///C:/bots.db` | SQLite, absolute |
| `sqlite:///~/bots.db` | SQLite, in the home folder |
| `sqlite:///:memory:` | SQLite in memory |
| `bots.db`, `bots.sqlite`, `bots.sqlite3` | SQLite, as a file name |
| `file:///var/lib/bots`, `file://./bots`, `file://~/bots` | files in a folder: absolute, relative, in the home folder |
| `redis://host:6379/0`, `rediss://…` | Redis; `?prefix=NAME` for keys other than `llm-fsm` |
| `postgresql://user:password@host/database`, `postgres://…` | PostgreSQL; `?schema=NAME`, else `llm_fsm` |
| `mongodb://host/database`, `mongodb+srv://…` | MongoDB |
| any other `scheme://…` | made by the entry point `scheme` of the group `llm_fsm.stores` |

Paths are not percent-decoded. A store's module is imported only when it is chosen.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path, PurePath
from typing import Any, cast
from urllib.parse import unquote_plus

from llm_fsm.errors import ConfigurationError
from llm_fsm.stores.base import Store

_LONGEST = 86_400.0
"""The most seconds of any setting."""
GROUP = "llm_fsm.stores"
_SUFFIXES = (".db", ".sqlite", ".sqlite3")
_FORMS = {
    "memory": '"memory"',
    "sqlite": '"sqlite:///file.db"',
    "postgresql": '"postgresql://user:password@host/database"',
    "redis": '"redis://host:6379/0"',
    "mongodb": '"mongodb://host/database"',
    "file": '"file:///folder"',
}
_SERVERS = {
    "postgresql": ("llm_fsm.stores.postgresql.store", "PostgreSQLStore", "postgres"),
    "postgres": ("llm_fsm.stores.postgresql.store", "PostgreSQLStore", "postgres"),
    "redis": ("llm_fsm.stores.redis.store", "RedisStore", "redis"),
    "rediss": ("llm_fsm.stores.redis.store", "RedisStore", "redis"),
    "mongodb": ("llm_fsm.stores.mongodb.store", "MongoDBStore", "mongo"),
    "mongodb+srv": ("llm_fsm.stores.mongodb.store", "MongoDBStore", "mongo"),
}
"""Scheme to module, class and the extra with its packages."""
_PORT = (
    *("load", "save", "records", "journal", "journalled", "forget_journal", "lock"),
    *("list", "definition", "due", "outbox", "acknowledge", "delete", "close"),
)


def resolve(store: str | Store | None) -> Store:
    """Find the store that a short form names, without opening anything.

    Args:
        store: A URL or file name, a store, or None for one in memory.

    Returns:
        The store.

    Raises:
        ConfigurationError: The form is unknown, or its package is not installed.
    """
    if store is None:
        return _memory()
    if not isinstance(store, str):
        return _checked(store)
    scheme, separator, rest = store.partition("://")
    scheme = scheme.lower()
    if not separator:
        return _bare(store)
    if scheme == "sqlite":
        return _sqlite(_path_in(rest))
    if scheme == "memory":
        return _memory()
    if scheme == "file":
        return _folder(rest)
    if scheme in _SERVERS:
        return _server(scheme, store)
    return _third_party(scheme, store)


def default_path(environ: Mapping[str, str], platform: str, home: Path) -> Path:
    """Choose the file of the command line's conversations: in `LLM_FSM_HOME`, else in the user's data folder.

    `platform` is as in `sys.platform`. Relative XDG_DATA_HOME is ignored, as the XDG specification demands.
    """
    name = "conversations.db"
    if own := environ.get("LLM_FSM_HOME"):
        return Path(own).expanduser() / name
    if platform == "win32":
        local = environ.get("LOCALAPPDATA")
        return (Path(local) if local else home / "AppData" / "Local") / "llm-fsm" / name
    if platform == "darwin":
        return home / "Library" / "Application Support" / "llm-fsm" / name
    data = environ.get("XDG_DATA_HOME", "")
    return (Path(data) if os.path.isabs(data) else home / ".local" / "share") / "llm-fsm" / name


def _bare(text: str) -> Store:
    if text.lower() == "memory":
        return _memory()
    if text.lower().startswith("sqlite:"):
        raise _slashes(text, text[len("sqlite:") :])
    if PurePath(text).suffix.lower() in _SUFFIXES:
        return _sqlite(text)
    raise _unknown(f'"{text}"', text)


def _path_in(rest: str) -> str:
    """Return the path after `sqlite://`."""
    path = rest[1:]
    if not rest.startswith("/"):
        raise _slashes(f"sqlite://{rest}", rest)
    if not path:
        raise ConfigurationError('store "sqlite:///": no file is named; for example "sqlite:///file.db"')
    if "?" in path:
        raise ConfigurationError(
            f'store "sqlite:///{path}": parameters after "?" are not supported; '
            f'write "sqlite:///{path.partition("?")[0]}"'
        )
    return path


def _slashes(text: str, path: str) -> ConfigurationError:
    return ConfigurationError(
        f'store "{text}": three slashes stand before a path, and four before an absolute one: '
        f'"sqlite:///{path.removeprefix("//") or "file.db"}"'
    )


def _sqlite(path: str) -> Store:
    module: Any = import_module("llm_fsm.stores.sqlite.store")
    return cast(Store, module.SQLiteStore(os.path.expanduser(path)))


def _server(scheme: str, url: str) -> Store:
    name, kind, extra = _SERVERS[scheme]
    try:
        module: Any = import_module(name)
    except ImportError as error:
        raise ConfigurationError(
            f'store "{scheme}://…" needs the package {error.name}: pip install "llm-fsm[{extra}]"'
        ) from error
    return cast(Store, getattr(module, kind)(url))


def _folder(path: str) -> Store:
    if not path.startswith(("/", "./", "../", "~")):
        raise ConfigurationError(
            f'store "file://{path}": name a folder, as "file:///var/lib/bots", "file://./bots" or "file://~/bots"'
        )
    module: Any = import_module("llm_fsm.stores.file")
    return cast(Store, module.FileStore(os.path.expanduser(path)))


def _memory() -> Store:
    module: Any = import_module("llm_fsm.stores.memory")
    return cast(Store, module.MemoryStore())


def _third_party(scheme: str, url: str) -> Store:
    """Make the store of an entry point. Errors show only the scheme, because the URL may have a password."""
    for point in _entry_points():
        if point.name == scheme:
            return _checked(point.load()(url))
    raise _unknown(f'"{scheme}://…"', scheme)


def _entry_points() -> Any:
    # Searching installed packages takes tens of milliseconds, which only third-party stores pay.
    metadata: Any = import_module("importlib.metadata")
    return metadata.entry_points(group=GROUP)


def _available() -> str:
    others = sorted({f'"{point.name}://…"' for point in _entry_points()})
    return ", ".join([*_FORMS.values(), 'a file name that ends in ".db"', *others])


def _unknown(shown: str, name: str) -> ConfigurationError:
    known = {**_FORMS, **{point.name: f'"{point.name}://…"' for point in _entry_points()}}
    close = get_close_matches(name.lower(), known, n=1)
    hint = f"; did you mean {known[close[0]]}?" if close else "."
    return ConfigurationError(f"unknown store {shown}{hint} Available: {_available()}")


def _checked(store: Any) -> Store:
    missing = [name for name in _PORT if not callable(getattr(store, name, None))]
    if missing:
        raise ConfigurationError(
            f"a store is a text such as {_FORMS['sqlite']} or an object with the methods of "
            f"llm_fsm.stores.base.Store; {type(store).__name__} has no {', '.join(missing)}"
        )
    return cast(Store, store)


def taken(url: str, *names: str) -> tuple[str, dict[str, str]]:
    """Return the URL without the settings of these names, and their values.

    The rest is unchanged, because drivers differ in their reading of spaces and of a missing host.
    """
    place, _, query = url.partition("?")
    found: dict[str, str] = {}
    left: list[str] = []
    for setting in query.split("&"):
        name, _, value = setting.partition("=")
        if unquote_plus(name) in names:
            found[unquote_plus(name)] = unquote_plus(value)
        elif setting:
            left.append(setting)
    return f"{place}?{'&'.join(left)}" if left else place, found


def with_defaults(url: str, **settings: object) -> str:
    """Return the URL with the settings that it does not have itself."""
    place, _, query = url.partition("?")
    said = {unquote_plus(setting.partition("=")[0]) for setting in query.split("&")}
    added = [f"{name}={value}" for name, value in settings.items() if name not in said]
    return f"{place}?{'&'.join([query, *added] if query else added)}"


def seconds(name: str, given: str | float) -> float:
    """Return a setting that is a time. Raises ConfigurationError."""
    try:
        number = float(given)
    except ValueError:
        number = 0.0
    if not 0 < number <= _LONGEST:
        raise ConfigurationError(
            f"{name} is a number of seconds, more than 0 and at most {_LONGEST:.0f}, not {given!r}: try {name}=10"
        )
    return number
