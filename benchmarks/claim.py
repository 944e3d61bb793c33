"""A longer conversation in another language: a claim of twelve states in German, sixteen messages,
two corrections.
"""

from __future__ import annotations

from typing import Any

from llm_fsm.testing import reply

KEYS = {
    "anliegen": {
        "type": "string",
        "enum": ["Schaden", "Kündigung", "Frage"],
        "description": "Worum es geht",
    },
    "vertragsnummer": {
        "type": "string",
        "pattern": "^[0-9]{8}$",
        "description": "Achtstellige Vertragsnummer",
    },
    "name": {"type": "string", "description": "Vor- und Nachname"},
    "schadentag": {"type": "string", "format": "date", "description": "Tag des Schadens"},
    "schadenort": {"type": "string", "description": "Ort, an dem es geschah"},
    "hergang": {"type": "string", "description": "Was geschehen ist, in einem Satz"},
    "polizei": {"type": "boolean", "description": "Ob die Polizei gerufen wurde"},
    "aktenzeichen": {"type": "string", "description": "Aktenzeichen der Polizei"},
    "betrag": {"type": "number", "minimum": 0, "description": "Geschätzter Schaden in Euro"},
    "iban": {"type": "string", "description": "Konto für die Auszahlung"},
    "telefon": {"type": "string", "description": "Rückrufnummer"},
}
MESSAGES = (
    "Guten Tag, bei mir wurde eingebrochen",
    "Ich heiße Jörg Müller-Lüdenscheidt",
    "Die Nummer ist 4711",
    "Entschuldigung, 47114711 natürlich",
    "Letzten Dienstag war das",
    "Also am 17. November 2026",
    "In der Goethestraße 12 in Köln",
    "Jemand hat die Terrassentür aufgehebelt und den Fernseher und zwei Fahrräder mitgenommen",
    "Ja, die Polizei war da",
    "Das Aktenzeichen habe ich gerade nicht zur Hand",
    "Ungefähr 3.500 Euro",
    "DE02 1203 0000 0000 2020 51",
    "0221 555 0188",
    "Nein, der Betrag ist falsch, die Räder waren teurer",
    "4.800 Euro",
    "Ja, so stimmt alles",
)


def _state(
    purpose: str, instructions: str, keys: list[str], *transitions: tuple[str, str, list[str]]
) -> Any:
    return {
        "purpose": purpose,
        "instructions": instructions,
        "required_context_keys": keys,
        "transitions": [
            {
                "target_state": target,
                "description": words,
                "conditions": [{"description": "bekannt", "requires_context_keys": needed}]
                if needed
                else [],
            }
            for target, words, needed in transitions
        ],
    }


def definition() -> dict[str, Any]:
    """The claim as a definition."""
    states = {
        "begruessung": _state(
            "Begrüße den Kunden und frage, worum es geht",
            "Sei herzlich und kurz.",
            ["anliegen"],
            ("identitaet", "Das Anliegen ist klar", ["anliegen"]),
        ),
        "identitaet": _state(
            "Erfrage Namen und Vertragsnummer",
            "Die Vertragsnummer hat acht Ziffern und steht oben rechts auf der Police.",
            ["name", "vertragsnummer"],
            ("zeit", "Name und Nummer sind bekannt", ["name", "vertragsnummer"]),
        ),
        "zeit": _state(
            "Erfrage den Tag des Schadens",
            "Wenn der Kunde nur einen Wochentag nennt, frage nach dem Datum.",
            ["schadentag"],
            ("ort", "Der Tag ist bekannt", ["schadentag"]),
        ),
        "ort": _state(
            "Erfrage den Ort des Schadens",
            "Straße und Stadt genügen.",
            ["schadenort"],
            ("hergang", "Der Ort ist bekannt", ["schadenort"]),
        ),
        "hergang": _state(
            "Lass dir schildern, was geschehen ist",
            "Höre zu, fasse in einem Satz zusammen, urteile nicht über die Schuld.",
            ["hergang"],
            ("polizei", "Der Hergang ist klar", ["hergang"]),
        ),
        "polizei": _state(
            "Erfrage, ob die Polizei gerufen wurde",
            "Frage nach dem Aktenzeichen, wenn sie da war.",
            ["polizei"],
            ("akte", "Die Polizei war da", ["polizei"]),
            ("betrag", "Die Polizei war nicht da", ["polizei"]),
        ),
        "akte": _state(
            "Erfrage das Aktenzeichen",
            "Wenn der Kunde es nicht zur Hand hat, kann er es nachreichen.",
            ["aktenzeichen"],
            ("betrag", "Es ist bekannt oder wird nachgereicht", []),
        ),
        "betrag": _state(
            "Erfrage die geschätzte Höhe des Schadens",
            "Eine grobe Schätzung in Euro reicht.",
            ["betrag"],
            ("konto", "Der Betrag ist bekannt", ["betrag"]),
            ("pruefung", "Der Betrag ist berichtigt", ["betrag", "iban"]),
        ),
        "konto": _state(
            "Erfrage das Konto für die Auszahlung",
            "Eine deutsche IBAN hat 22 Zeichen.",
            ["iban"],
            ("telefon", "Das Konto ist bekannt", ["iban"]),
        ),
        "telefon": _state(
            "Erfrage eine Rückrufnummer",
            "Sie ist freiwillig.",
            ["telefon"],
            ("pruefung", "Sie ist bekannt oder nicht gewünscht", []),
        ),
        "pruefung": _state(
            "Fasse alle Angaben zusammen und frage, ob sie stimmen",
            "Wenn etwas falsch ist, frage was.",
            [],
            ("fertig", "Der Kunde bestätigt alles", []),
            ("zeit", "Der Tag soll geändert werden", []),
            ("betrag", "Der Betrag soll geändert werden", []),
        ),
        "fertig": {"purpose": "Bedanke dich und nenne die nächsten Schritte"},
    }
    return {
        "name": "Schadenmeldung",
        "description": "Nimmt einen Schaden für die Hausratversicherung auf.",
        "persona": "Eine ruhige, freundliche Sachbearbeiterin, die Kunden siezt und sich kurz fasst.",
        "initial_state": "begruessung",
        "context_schema": {"type": "object", "properties": KEYS},
        "states": states,
    }


def replies() -> list[dict[str, Any]]:
    """What the model says: the greeting, then one reply a message."""
    return [
        reply(
            "begruessung",
            "Guten Tag und willkommen bei der Schadenmeldung! Worum geht es bei Ihnen?",
        ),
        reply(
            "identitaet",
            "Das tut mir sehr leid. Wie ist Ihr Name und Ihre Vertragsnummer?",
            anliegen="Schaden",
        ),
        reply(
            "identitaet", "Vielen Dank. Und Ihre Vertragsnummer?", name="Jörg Müller-Lüdenscheidt"
        ),
        reply(
            "identitaet",
            "Die Nummer hat acht Ziffern und steht oben rechts auf der Police. Sehen Sie sie?",
        ),
        reply("zeit", "Danke, das passt. An welchem Tag geschah es?", vertragsnummer="47114711"),
        reply("zeit", "Welches Datum war das genau?"),
        reply("ort", "Danke. Wo ist es geschehen?", schadentag="2026-11-17"),
        reply(
            "hergang",
            "Können Sie mir bitte schildern, was geschehen ist?",
            schadenort="Goethestraße 12, Köln",
        ),
        reply(
            "polizei",
            "Das ist ärgerlich. Haben Sie die Polizei gerufen?",
            hergang="Einbruch, Fernseher und Räder",
        ),
        reply("akte", "Gut. Haben Sie ein Aktenzeichen bekommen?", polizei=True),
        reply("betrag", "Sie können es gern nachreichen. Wie hoch schätzen Sie den Schaden?"),
        reply("konto", "Danke. Auf welches Konto sollen wir auszahlen?", betrag=3500),
        reply(
            "telefon",
            "Unter welcher Nummer erreichen wir Sie bei Rückfragen?",
            iban="DE02120300000000202051",
        ),
        reply(
            "pruefung",
            "Ich fasse zusammen: Einbruch am 17. November 2026 in Köln, etwa 3.500 Euro. Stimmt das so?",
            telefon="02215550188",
        ),
        reply("betrag", "Gern. Wie hoch ist der Schaden dann?"),
        reply(
            "pruefung", "Danke, ich habe 4.800 Euro notiert. Ist sonst alles richtig?", betrag=4800
        ),
        reply("fertig", "Vielen Dank. Sie erhalten in den nächsten Tagen Post von uns."),
    ]
