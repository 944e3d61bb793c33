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
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import unquote_plus

from llm_fsm._json import TextMap
from llm_fsm._text import nearest
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
_CLASSES = {
    "memory": ("MemoryStore", ""),
    "sqlite": ("SQLiteStore", ""),
    "file": ("FileStore", ""),
    "postgresql": ("PostgreSQLStore", "postgres"),
    "redis": ("RedisStore", "redis"),
    "mongodb": ("MongoDBStore", "mongo"),
}
"""Module to class, and the extra with its packages."""
_SERVERS = {
    **{"postgresql": "postgresql", "postgres": "postgresql", "redis": "redis", "rediss": "redis"},
    **{"mongodb": "mongodb", "mongodb+srv": "mongodb"},
}
"""Scheme to module."""
_PORT = (
    "load",
    "save",
    "records",
    "journal",
    "journalled",
    "forget_journal",
    "lock",
    "list",
    "definition",
    "due",
    "outbox",
    "acknowledge",
    "delete",
    "close",
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
        return _made("memory")
    if not isinstance(store, str):
        return _checked(store)
    scheme, separator, rest = store.partition("://")
    scheme = scheme.lower()
    # A plain text is a word such as `memory`, or the path of a file.
    if not separator:
        return _bare(store)
    if scheme == "sqlite":
        return _made("sqlite", _path_in(rest))
    if scheme == "memory":
        return _made("memory")
    if scheme == "file":
        return _made("file", _folder_in(rest))
    if scheme in _SERVERS:
        return _made(_SERVERS[scheme], store)
    return _third_party(scheme, store)


def default_path(environ: TextMap, platform: str, home: Path) -> Path:
    """Choose the file of the command line's conversations: in `LLM_FSM_HOME`, else in the user's
    data folder.

    `platform` is as in `sys.platform`. Relative XDG_DATA_HOME is ignored, as the XDG specification
    demands.
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


def _made(kind: str, *place: str) -> Store:
    """Make a store of this package. Its module is imported only now."""
    name, extra = _CLASSES[kind]
    try:
        module: Any = import_module(f"llm_fsm.stores.{kind}")
    except ImportError as error:
        # A store of this package without a driver cannot be missing anything.
        if not extra:
            raise
        raise ConfigurationError(
            f'store "{kind}://…" needs the package {error.name}: pip install "llm-fsm-runtime[{extra}]"'
        ) from error
    store: Store = getattr(module, name)(*place)
    return store


def _bare(text: str) -> Store:
    if text.lower() == "memory":
        return _made("memory")
    if text.lower().startswith("sqlite:"):
        raise _slashes(text, text[len("sqlite:") :])
    if PurePath(text).suffix.lower() in _SUFFIXES:
        return _made("sqlite", os.path.expanduser(text))
    raise _unknown(f'"{text}"', text)


def _path_in(rest: str) -> str:
    """Return the path after `sqlite://`."""
    path = rest[1:]
    if not rest.startswith("/"):
        raise _slashes(f"sqlite://{rest}", rest)
    if not path:
        raise ConfigurationError(
            'store "sqlite:///": no file is named; for example "sqlite:///file.db"'
        )
    # SQLite would make a file with that name.
    if "?" in path:
        raise ConfigurationError(
            f'store "sqlite:///{path}": parameters after "?" are not supported; '
            f'write "sqlite:///{path.partition("?")[0]}"'
        )
    return os.path.expanduser(path)


def _slashes(text: str, path: str) -> ConfigurationError:
    return ConfigurationError(
        f'store "{text}": use three slashes before a path, and four before an absolute one: '
        f'"sqlite:///{path.removeprefix("//") or "file.db"}"'
    )


def _folder_in(path: str) -> str:
    """Return the path after `file://`."""
    # `file://bots` would name a host by the rules of URLs.
    if not path.startswith(("/", "./", "../", "~")):
        raise ConfigurationError(
            f'store "file://{path}": name a folder, as "file:///var/lib/bots", "file://./bots" or "file://~/bots"'
        )
    return os.path.expanduser(path)


def _third_party(scheme: str, url: str) -> Store:
    """Make the store of an entry point. Errors show only the scheme, because the URL may have a
    password.
    """
    point = next(iter(entry_points(group=GROUP, name=scheme)), None)
    if point is None:
        raise _unknown(f'"{scheme}://…"', scheme)
    return _checked(point.load()(url))


def _unknown(shown: str, name: str) -> ConfigurationError:
    others = {scheme: f'"{scheme}://…"' for scheme in sorted(entry_points(group=GROUP).names)}
    known = {**_FORMS, **others}
    close = nearest(name, known)
    hint = f"; did you mean {known[close]}?" if close else "."
    available = ", ".join([*_FORMS.values(), 'a file name that ends in ".db"', *others.values()])
    return ConfigurationError(f"unknown store {shown}{hint} Available: {available}")


def _checked(store: Any) -> Store:
    missing = [name for name in _PORT if not callable(getattr(store, name, None))]
    if missing:
        raise ConfigurationError(
            f"a store is a text such as {_FORMS['sqlite']} or an object with the methods of "
            f"llm_fsm.stores.base.Store; {type(store).__name__} has no {', '.join(missing)}"
        )
    found: Store = store
    return found


def taken(url: str, *names: str) -> tuple[str, dict[str, str]]:
    """Return the URL without the settings of these names, and their values.

    The rest is unchanged, because drivers differ in their reading of spaces and of a missing host.
    """
    place, _, query = url.partition("?")
    found = {}
    left = []
    for setting in query.split("&"):
        name, _, value = setting.partition("=")
        # The driver would refuse a setting that it does not know.
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
        # Refused below, like every number that is no time.
        number = 0.0
    if not 0 < number <= _LONGEST:
        raise ConfigurationError(
            f"{name} is a number of seconds, more than 0 and at most {_LONGEST:.0f}, not {given!r}: try {name}=10"
        )
    return number
