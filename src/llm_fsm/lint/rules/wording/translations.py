"""Texts in further languages that are missing, or that say something else."""

from __future__ import annotations

from llm_fsm._text import cut
from llm_fsm.definition.reply_names import mentions
from llm_fsm.languages import LANGUAGE, language_of
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.facts.translations import further_languages, translated_replies, untranslated
from llm_fsm.lint.rule import Fault, Faults, lint_rule

_SHOWN = 60
"""Characters of a text that a message shows."""


@lint_rule("W415", "warning")
def missing_translation(document: Document) -> Faults:
    """A text that users read is missing in one of the `languages`.

    Why it is bad:
    Users of that language read the sentence in the language of the definition.

    Example:
        "language": "en", "languages": ["de"],
        "states": {"hello": {"purpose": "Greet", "reply": "Good day!"}}

    Fix:
    `llm-fsm texts update FILE` writes the missing texts into `NAME.de.po`. Translate them there.
    """
    for place, tag in further_languages(document):
        if not document.root.at("texts").get(tag):
            hint = "llm-fsm texts update FILE writes the file of its texts"
            yield Fault(f"there are no texts in {quoted(tag)}", pointer=place, hint=hint)
            continue
        for pointer, text in untranslated(document, tag):
            message = f"a text is missing in {quoted(tag)}: {quoted(cut(text, _SHOWN))}"
            yield Fault(message, pointer=pointer, hint=f"translate it in the .po file of {tag}")


@lint_rule("W416", "warning")
def changed_placeholder(document: Document) -> Faults:
    """A translated reply shows other keys than the reply itself.

    Why it is bad:
    The user of that language does not learn a value, or reads a gap in place of one.

    Example:
        "language": "en", "languages": ["de"],
        "states": {"bye": {"purpose": "Say goodbye", "reply": "See you on {{ day }}."}},
        "texts": {"de": {"/states/bye/reply": "Bis {{ tag }}."}}

    Fix:
    Write the same names between the braces. Names of keys are not translated.
    """
    for found in translated_replies(document):
        names = {mention.name for mention in mentions(found.source)}
        shown = {mention.name for mention in mentions(found.text)}
        for name in sorted(names ^ shown):
            how = "does not show" if name in names else "shows"
            message = f"the text in {quoted(found.tag)} {how} {quoted(name)}, unlike the reply"
            yield Fault(message, pointer=found.pointer, hint="keep the names between the braces")


@lint_rule("W417", "warning")
def unspoken_language(document: Document) -> Faults:
    """The machine has no sentences of its own in one of the `languages`.

    Why it is bad:
    Repair patterns say nothing in that language. Apologies and the question after a read-back are missing or English.

    Example:
        "language": "en", "languages": ["la"],
        "states": {"hello": {"purpose": "Greet", "reply": "Good day!"}}

    Fix:
    Add a file for the language beside those in `llm_fsm/languages/words`, or leave the language out.
    """
    for pointer, tag in further_languages(document):
        if not language_of(tag).sentences:
            message = f"the machine has no sentences in {quoted(tag)}"
            yield Fault(message, pointer=pointer, hint="its file needs `sentences`")


@lint_rule("S131", "error")
def taken_key(document: Document) -> Faults:
    """A definition with several languages declares a context key `language`.

    Why it is bad:
    The machine keeps the language of the conversation under this name.

    Example:
        "language": "en", "languages": ["de"],
        "context_schema": {"type": "object", "properties": {"language": {"type": "string"}}},
        "states": {"hello": {"purpose": "Greet the user"}}

    Fix:
    Give the key another name. To ask for the language, collect `language` without declaring it.
    """
    keys = document.root.at("context_schema").at("properties")
    if LANGUAGE in keys.value and any(True for _ in further_languages(document)):
        pointer = f"{keys.pointer}/{LANGUAGE}"
        message = "the machine itself keeps the language of the conversation under this name"
        yield Fault(message, pointer=pointer, hint="give the key another name")
