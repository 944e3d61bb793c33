"""The pages of the rules whose findings are made while a document is read.

`definition/codes.py` holds their codes and levels, because reading comes before the checker.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from llm_fsm._json import TextMap
from llm_fsm.definition.codes import CODES
from llm_fsm.lint.document import Document
from llm_fsm.lint.rule import Faults, LintRule

PAGES: TextMap = MappingProxyType(
    {
        "unreadable-file": """A file that is named cannot be opened or read.

Why it is bad:
Nothing is known about the definition; a check that passes over it says nothing.

Example:
    llm-fsm validate missing.json

Fix:
Correct the path, or the permissions of the file. A folder stands for the definitions below it.
""",
        "too-large": """A file is larger than 10 MB.

Why it is bad:
No definition that people write comes near; such a file is data, or was made by accident.

Example:
    llm-fsm validate export_of_all_conversations.json

Fix:
Name the definition, and split a machine that large into subflows.
""",
        "empty-file": """A file holds nothing but white space.

Why it is bad:
There is no machine in it; often an editor or a script stopped while it was writing.

Example:
    llm-fsm validate empty.json

Fix:
Write a definition: one JSON object with `name`, `initial_state` and `states`. `llm-fsm new` makes one.
""",
        "not-utf8": """A file is not encoded in UTF-8.

Why it is bad:
JSON is UTF-8 (RFC 8259). Read in another encoding the words would reach users as garbage.

Example:
    {"name": "caf\\xe9"}    (saved as Latin-1)

Fix:
Save the file as UTF-8.
""",
        "bad-json": """A text is not JSON: a quote, comma or bracket is missing, or something stands where it cannot.

Why it is bad:
The definition cannot be read at all, so nothing else about it can be checked.

Example:
    {"name": "greeter" "initial_state": "hello"}

Fix:
Mend the place that the message names. Comments and trailing commas are accepted.
""",
        "too-deep": """Lists and objects are nested deeper than 200 levels.

Why it is bad:
No definition needs it, and reading it without end would bring the program down.

Example:
    [[[[[[[[[[[[[[[[ …

Fix:
Take the nesting out; a value that holds itself cannot be written as JSON.
""",
        "bad-number": """A number is not finite, or a whole number does not fit in 64 bits.

Why it is bad:
It cannot be written as JSON, or other programs read another number from it.

Example:
    {"limits": {"seconds": Infinity}}

Fix:
Write the number that is meant; leave a limit away where there is to be none.
""",
        "not-a-definition": """A document is not a JSON object.

Why it is bad:
A definition is one object with `name`, `initial_state` and `states`; a list or a text is something else.

Example:
    [{"name": "greeter"}]

Fix:
Put each machine into a file of its own, and name only files that hold definitions.
""",
        "not-json": """A mapping that was given in place of a file holds a value that JSON does not have.

Why it is bad:
A definition is data. Sets, dates, functions and keys that are not text cannot be stored or compared.

Example:
    load_dict({"name": "greeter", "ui": {1, 2}})

Fix:
Give lists, mappings with text keys, texts, numbers, true, false and null only.
""",
        "bad-text": """A text holds half of a surrogate pair, which is no character.

Why it is bad:
It cannot be encoded: the prompt could not be sent and the conversation could not be stored.

Example:
    {"name": "\\ud83d"}

Fix:
Write the character itself, or both halves of the escape.
""",
        "bad-translations": """A file with the texts of a language is no gettext file.

Why it is bad:
Nothing of it can be used, so no user of that language would be served.

Example:
    msgid Good day
    msgstr "Guten Tag"

Fix:
Mend the line that the message names, or write the file anew by `llm-fsm texts update FILE`.
""",
        "fuzzy-translation": """A translation is marked as fuzzy: its text has changed, and nobody has looked since.

Why it is bad:
It may say something else than the definition, so it is not used.

Example:
    #, fuzzy
    msgctxt "/states/bye/reply"
    msgid "Goodbye, and see you soon!"
    msgstr "Auf Wiedersehen!"

Fix:
Correct the translation, and remove the mark.
""",
        "unknown-key": """An object has a key that the format does not know.

Why it is bad:
The key is ignored. What it was to say – a transition, a limit, a key to collect – is not there.

Example:
    "states": {"hello": {"porpose": "Greet the user"}}

Fix:
Use the name that the hint gives. Keys of your own may begin with `x-`.
""",
        "wrong-type": """A value has another type than its key calls for.

Why it is bad:
The definition cannot be loaded.

Example:
    "states": {"hello": {"purpose": "Greet the user", "max_retries": "2"}}

Fix:
Write the value as the message says; `llm-fsm validate --fix` mends what is only quoted or unbracketed.
""",
        "missing-key": """An object lacks a key that it cannot do without.

Why it is bad:
The definition cannot be loaded. A machine needs `name`, `initial_state` and `states`. A transition needs its
`target_state`, and a key result its `name`.

Example:
    "states": {"hello": {"purpose": "Greet the user", "transitions": [{"description": "The user says goodbye"}]}}

Fix:
Add the key.
""",
        "bad-value": """A value has the right type and cannot stand there: an unknown choice, or a number out of bounds.

Why it is bad:
The definition cannot be loaded.

Example:
    "states": {"hello": {"purpose": "Greet the user", "kind": "conversation"}}

Fix:
Use one of the values that the message lists.
""",
        "duplicate-key": """An object has the same key twice.

Why it is bad:
Only the last of the two counts, and which one that is depends on the program that reads the file. Half of
a state may silently be missing.

Example:
    {"states": {"hello": {"purpose": "Greet"}, "hello": {"purpose": "Ask for the name"}}}

Fix:
Keep one of them. `llm-fsm validate --fix` removes the second where both have the same value.
""",
        "bad-state-id": """A state's id holds characters that ids cannot have, or is too long.

Why it is bad:
The model writes ids back. An id has at most 64 ASCII letters, digits, `_` and `-`, and begins with a letter or `_`.
The definition cannot be loaded.

Example:
    "states": {"say hello": {"purpose": "Greet the user"}}

Fix:
Rename the state, and the transitions that lead to it.
""",
        "unknown-rule": """`x-lint` names a rule that does not exist, or is written in another form than it can have.

Why it is bad:
What was to be left out is reported all the same.

Example:
    "x-lint": {"ignore": [{"rule": "unreachable-sate", "reason": "entered by the host"}]},
    "states": {"hello": {"purpose": "Greet"}}

Fix:
Write `"x-lint": {"ignore": ["rule-name", {"rule": "rule-name", "at": "/states/x", "reason": "…"}]}`;
docs/rules.md lists the rules.
""",
        "ignore-without-reason": """`x-lint` leaves findings out and does not say why.

Why it is bad:
Whoever reads the file later cannot tell a decision from a mistake.

Example:
    "x-lint": {"ignore": ["no-final-state"]},
    "states": {"a": {"purpose": "Ask", "transitions": [{"target_state": "b"}]},
               "b": {"purpose": "Answer", "transitions": [{"target_state": "a"}]}}

Fix:
Write `{"rule": "no-final-state", "reason": "an open-ended companion"}`.
""",
        "unused-ignore": """`x-lint` leaves out a rule that finds nothing there, or one whose findings are errors.

Why it is bad:
The entry hides nothing today, and may hide a real fault tomorrow. Errors cannot be left out in the file:
what cannot work has to be mended.

Example:
    "x-lint": {"ignore": [{"rule": "trap", "reason": "the lobby is a loop"}]},
    "states": {"hello": {"purpose": "Greet"}}

Fix:
Remove the entry, or correct its `at`.
""",
        "older-form": """A document is written in an older form, or in that of another system, and was read as today's.

Why it is bad:
It works, and needs no change. Tools and people that know today's form only may stumble over it.

Example:
    "states": {"hello": {"purpose": "Greet", "transitions": ["bye"]}, "bye": {"purpose": "Say goodbye"}}

Fix:
`llm-fsm convert` writes today's form; `llm-fsm validate --fix` renames single keys.
""",
        "not-mapped": """A part of an older or foreign document has no counterpart, so what it said is not done.

Why it is bad:
The machine behaves otherwise than in the system that it was written for.

Example:
    "states": {"hello": {"purpose": "Greet", "optional_context_keys": ["nickname"]}}

Fix:
Say the same with today's means, as the hint tells, and remove the key.
""",
        "no-effect": """A key of an older version is read and has no effect.

Why it is bad:
It does no harm; readers may think that it does something.

Example:
    "metadata": {"author": "Ada"}, "states": {"hello": {"purpose": "Greet"}}

Fix:
Remove it, or give it a name that begins with `x-`.
""",
        "flow-nesting": """Subflows call one another deeper than eight levels.

Why it is bad:
Every level holds a context and a place to come back to, and nobody can follow such a conversation. The machine
cannot be made; `llm-fsm validate` looks at one file and does not report it.

Example:
    "name": "level-1",
    "states": {"down": {"kind": "subflow", "flow": "level-2.json", "transitions": [{"target_state": "done"}]},
               "done": {"purpose": "Say goodbye"}}

Fix:
Let one definition call several after another instead of each calling the next.
""",
    }
)
"""Name of a rule to its page."""


def _nothing(_document: Document) -> Faults:
    return iter(())


RULES: Mapping[str, LintRule] = MappingProxyType(
    {
        name: LintRule(
            name=name,
            code=CODES[name].code,
            level=CODES[name].level,
            check=_nothing,
            page=page,
            at_key=CODES[name].at_key,
        )
        for name, page in PAGES.items()
    }
)
"""Name to rule."""
