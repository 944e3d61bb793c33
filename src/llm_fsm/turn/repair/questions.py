"""What words ask: which sentences do, one thing or several, whether yes and no answer it, and what is numbered.

Rough, in a few dozen languages; where a turn may do without a model, only ever to the safe side: what looks like
several questions, or like one that yes does not answer, is for a model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from llm_fsm._text import TRUNCATED
from llm_fsm.turn.repair.courtesies import is_courtesy
from llm_fsm.turn.repair.pleas import begs, may_request

YES = frozenset(
    (
        *("yes", "y", "true", "ja", "oui", "sí", "sì", "si", "sim", "да", "ναι", "evet"),
        *("はい", "네", "예", "是", "نعم", "כן", "हाँ", "हां"),
    )
)
NO = frozenset(
    (
        *("no", "n", "false", "nein", "nee", "nej", "nei", "non", "não", "nao", "нет", "όχι", "οχι", "hayır"),
        *("いいえ", "아니요", "아니오", "否", "لا", "לא", "नहीं"),
    )
)
QUESTION_MARKS = "?\uff1f\u061f\u037e\u055e\u1367"
"""Of Latin, full-width, Arabic, Greek, Armenian and Ethiopic script."""
_ASKED = re.compile(f"[{QUESTION_MARKS}]+|か(?=。|$)", re.MULTILINE)
"""A question mark, or how a Japanese sentence ends that asks."""
_THAI_ASKS = re.compile(
    r"(?:คะ(?<!นะคะ)|กี่(?<!ไม่กี่)\S{1,20}|ไหม|มั้ย|หรือไม่|หรือเปล่า|หรือยัง|อะไร|ไหน|เท่าไหร่|เท่าไร|เมื่อไหร่|เมื่อไร|อย่างไร|ใคร)"
    r"(?:ดี|บ้าง)?(?:ครับ)?(?=\s|$)"
)
"""How one ends in Thai, which has no question mark."""
_GREEK_ASKS = re.compile(r"([\u0370-\u03ff\u1f00-\u1fff]{2}[^;\n]{0,40});(?!\w)")
"""How keyboards, and Unicode's normal forms, write the question mark of Greek, which has another semicolon."""
_UNSPACED = "。！\uff1f"
"""What ends a sentence in scripts that put no space after it."""
_SENTENCE_END = re.compile(
    rf"(?<=[.!…।۔։።{_UNSPACED}{QUESTION_MARKS}])\s+|(?<=[{_UNSPACED}])(?=\w)|\n+|(?:(?<=ค่ะ)|(?<=นะคะ)|(?<=ครับ))\s+"
)
"""Also what a Thai sentence ends in that is polite and does not ask, as Thai has no full stop."""
_LEANING = 30
"""Characters below which a question may need the sentence before it."""
_BARE = 16
"""Those of a plea, which mostly says what it is for: "Please confirm." does not."""
_WORD = re.compile(r"[\w'’\u0900-\u0963\u0966-\u0dff]+")
"""Also with the vowel signs of Indian scripts, which `re` takes for no part of a word."""
_TURNED = frozenset(
    (
        *("not", "cannot", "never", "without", "or", "either", "neither", "nor", "mind", "object", "nothing", "nobody"),
        *("none", "dont", "doesnt", "didnt", "isnt", "arent", "cant", "wont", "havent", "unable", "hardly"),
        *("nowhere", "rather", "lieber", "liever", "saknar", "saknas", "mangler", "χωρίσ", "ya"),
        *("nicht", "nichts", "kein", "keine", "keinen", "keiner", "keines", "ohne", "oder", "nie", "weder", "niemand"),
        *("dagegen", "stört", "pas", "ne", "sans", "ou", "jamais", "aucun", "aucune", "ni", "soit", "dérange"),
        *("sin", "nunca", "ningún", "jamás", "nadie", "nada", "tampoco", "importa", "molesta", "não", "nao", "sem"),
        *("nem", "ninguém", "non", "senza", "oppure", "nessuno", "niente", "né", "dispiace"),
        *("niet", "geen", "zonder", "nooit", "niets", "niemand", "noch", "tegen", "inte", "ikke", "ingen", "eller"),
        *("utan", "uden", "uten", "aldrig", "aldri", "varken", "hverken", "verken", "emot", "imod", "imot"),
        *("bez", "lub", "albo", "nebo", "не", "без", "или", "либо", "ни", "никто", "против", "возражаете"),
        *("δεν", "δέν", "δε", "μην", "μη", "χωρίς", "ή", "είτε", "ούτε", "πειράζει", "αντίρρηση"),
        *("değil", "veya", "veyahut", "yahut", "yoksa", "yok", "sakıncası", "안", "중에", "말고"),
        *("नहीं", "न", "मत", "या", "अथवा", "कि", "बिना", "आपत्ति", "أو", "أم", "أما", "ألا", "ما", "ولا"),
        *("أولا", "بلا", "بدون", "دون", "غير", "مانع", "تمانع", "או", "אין", "בלי", "ללא", "אף", "מעולם", "מפריע"),
    )
)
"""Words that turn a question round, or make it a choice: yes may then be meant either way, or say nothing."""
_TURNED_PARTS = re.compile(
    r"n['’]t$|^n['’]|ليس|لست|^(?:أو?)?ل[من]$|^ש?לא$|^אינ|ません|ない|なし|まだ|抜き|嫌|それとも|または|あるいは|もしくは"
    r"|か[\u30a0-\u30ff\u4e00-\u9fff]|不|没|沒|未|无|無|别|別|非|介意|反[对對]|还是|還是|或"
    r"|않|없|못|아니|또는|혹은|싫|모르|아직|^안[가-힣]|(?:나|랑|든지)$|m[ae]d[ıi]|m[ae]z|m[ıiuü]yor|m[ae]y[ae]|m[ae]s[ae]k"
    r"|m[ae]m[ıi]ş|\ws[ıiuü]z$"
)
_OR = re.compile(r"¿[^¿?]*\b[ou]\b|\bya da\b|(?<=\w )czy\b")
_OR_BESIDE = {"ja": "of", "nee": "of", "sì": "o", "sí": "o", "si": "o", "no": "o", "yes": "o"}
"""Words for "or" that mean something else in other languages, or elsewhere; these beside answers of their own one."""
_TURKISH_ASKS = re.compile("m[ıiuü](?:[sy][ıiuüd]\\w+)?")
"""What each question of Turkish has, and each part of a choice."""
_NO_AGREES = re.compile(r"[ąćęłńśźżčďěňřšťůž]|\bczy\b", re.IGNORECASE)
"""Letters of languages in which "no" says yes (Polish, Czech, Slovak), or hardly anything, and of some others."""


_AND = re.compile(
    r"\b(?:and|und|sowie|et|y|e(?!-)|och|og|ja|oraz|и|та|і|και|κι|ve|és|dan|và|as well|also|plus|और|तथा|एवं)\b"
    r"|[&+/;、；／]|\bو\w|\bו\w|[和与與跟及]|(?<![こひも])と(?!ころ|き|いう)|(?:와|과|랑|하고|그리고|및)\s|และ|กับ"
)
_BEGUN = re.compile(r"\W*")
_SLAVONIC_AND = re.compile(r"\b[ia]\b")
_DUTCH_AND = re.compile(r"\ben\b")
_DUTCH = re.compile(r"\b(?:hoe|hoeveel|uw|u|je|jij|wat|welke?|wanneer|het)\b")
"""What says that "en" is "and", which in Romance languages it is not."""
_CLAUSE_END = re.compile("[,，،]")
_THAI_GAP = re.compile(r"[\u0e01-\u0e5b0-9]\s+(?=[\u0e01-\u0e5b])")
_RANGE = re.compile(r"(?<![\d.,])\d+\s*(?:[^\W\d_]{1,5}|[-–—~〜～])\s*\d+")
_COUNTS = re.compile(
    r"\b(?:how (?:many|much|old|long|far)|number of|wie ?viele?|wie (?:alt|lange)|anzahl|combien|nombre de"
    r"|cuánt[oa]s?|número de"
    r"|quant[oaie]s?|numero di|hoeveel|aantal|hur många|antal|hvor mange|ile|ilu|liczb[aęy]|сколько|скільки"
    r"|kolik|koľko|πόσ\w+|kaç|montako|kuinka|hány|berapa|bao nhiêu)\b|كم|כמה|कितन|いくつ|何[人名泊個枚回台]|几|幾"
    r"|多少|몇|얼마|กี่|เท่าไ",
    re.IGNORECASE,
)
_YES_NO = re.compile(rf"\b(?:{'|'.join(YES | NO)})\s*/\s*(?:{'|'.join(YES | NO)})\b")


def asks(text: str) -> bool:
    """True when a text asks: it has a question mark of any script, or a Japanese or Thai sentence that ends so."""
    return _ASKED.search(marked(text)) is not None or not (text.isascii() or _THAI_ASKS.search(text) is None)


def puts(text: str) -> bool:
    """True when a text asks, or has a sentence that begs for an answer: "Please tell us your name."."""
    return asks(text) or any(map(begs, _sentences(text)))


def marked(text: str) -> str:
    """A text, as long as it is, with question marks for semicolons that are meant as such."""
    return _GREEK_ASKS.sub("\\1\u037e", text) if ";" in text else text


def question_in(text: str) -> str:
    """The sentences that ask or beg in the last paragraph that has any; "" where none does, or the text was cut off.

    A question that is shorter than the sentence before it in its paragraph leans on that one: "… a deposit. Is that
    all right?"
    """
    if text.endswith(TRUNCATED):
        return ""
    return next(filter(None, map(_asking, reversed(text.split("\n\n")))), "")


def _asking(paragraph: str) -> str:
    parts = _sentences(paragraph)
    asking = [number for number, part in enumerate(parts) if puts(part)]
    if asking and asking[0] > 0:
        first, before = parts[asking[0]], parts[asking[0] - 1]
        if len(first) < min(_LEANING if asks(first) else _BARE, len(before)):
            asking.insert(0, asking[0] - 1)
    return _joined(parts[number] for number in asking)


def _sentences(paragraph: str) -> list[str]:
    gaps = [found.span() for found in _SENTENCE_END.finditer(marked(paragraph))]
    starts = [0, *(end for _, end in gaps)]
    ends = [*(start for start, _ in gaps), len(paragraph)]
    return [paragraph[start:end].strip() for start, end in zip(starts, ends, strict=True)]


def told_in(text: str) -> str:
    """What a text says without asking."""
    told = (_joined(part for part in _sentences(paragraph) if not puts(part)) for paragraph in text.split("\n\n"))
    return "\n\n".join(filter(None, told))


def _joined(parts: Iterable[str]) -> str:
    text = ""
    for part in filter(None, parts):
        text += part if not text or text[-1] in _UNSPACED else f" {part}"
    return text


def is_nearer(text: str, first: str, second: str) -> bool:
    """True when a text has more of the first one's letters in pairs than of the second one's, in whatever language."""
    pairs = _pairs(text)
    return _share(pairs, _pairs(first)) > _share(pairs, _pairs(second))


def _pairs(text: str) -> frozenset[str]:
    letters = "".join(letter for letter in text.casefold() if letter.isalnum())
    return frozenset(letters[place : place + 2] for place in range(len(letters) - 1))


def _share(pairs: frozenset[str], wanted: frozenset[str]) -> float:
    return len(pairs & wanted) / len(wanted) if wanted else 0.0


def several(words: str) -> bool:
    """True where more than one thing may have been asked, or begged for, each in a sentence of its own."""
    asked = len(_ASKED.findall(marked(words)))
    parts = [] if asked > 1 else [part for part in _sentences(words) if part and not is_courtesy(part)]
    return asked > 1 or (len(parts) > 1 and asked + sum(may_request(part) for part in parts if not asks(part)) > 1)


def joined(words: str) -> bool:
    """True where one sentence may ask for two things: "How many nights, and how many guests?"."""
    parts = [part for part in _sentences(words) if part and not is_courtesy(part)]
    return any(map(_joins, filter(puts, parts))) or (not any(map(puts, parts)) and any(map(_joins, parts)))


def _joins(sentence: str) -> bool:
    text = _YES_NO.sub("", marked(sentence).casefold())
    ands = [_AND, *[_SLAVONIC_AND] * bool(_NO_AGREES.search(text)), *[_DUTCH_AND] * bool(_DUTCH.search(text))]
    begun = _BEGUN.match(text)
    onward = begun.end() if begun else 0
    found = next((found for one in ands if (found := one.match(text, onward))), None)  # "And your name?" goes on
    onward = found.end() if found else onward
    if any(one.search(text, onward) for one in ands):
        return True
    first, *others = (set(_WORD.findall(part)) for part in _CLAUSE_END.split(text))
    return any(first & other for other in others)


def alone(words: str) -> bool:
    """True where the words are one sentence, but for thanks and greetings: whatever else they tell may ask as well."""
    found = [part for part in _sentences(words) if _WORD.search(part) and not is_courtesy(part)]
    return len(found) <= 1 and not any(map(_THAI_GAP.search, found))


def stands(number: str, words: str) -> bool:
    """True where a number is said in the words, if not as an end of a range: "0" in "How many, or 0 for none?"."""
    if number not in words:
        return False
    return re.search(rf"(?<![\d.,]){re.escape(number)}(?![\d.,]*\d)", _RANGE.sub("", words)) is not None


def counts(text: str) -> bool:
    """True where a text may ask for a number."""
    return _COUNTS.search(text) is not None


def takes(word: str, words: str) -> bool:
    """True where yes or no answers what was asked, and this word is that for certain."""
    if word == "no" and no_agrees(words):
        return False
    asked = next(filter(asks, reversed(_sentences(words))), words)
    found = _WORD.findall(_OR.sub("or", asked.casefold()))
    return _OR_BESIDE.get(word) not in found and not _is_turned(found)


def no_agrees(text: str) -> bool:
    """True for text of a language in which "no" may say yes."""
    return _NO_AGREES.search(text) is not None


def _is_turned(words: list[str]) -> bool:
    """True where words turn a question round, but for a yes and a no beside each other, which are its answers."""
    for place, word in enumerate(words):
        after = words[place + 1 : place + 3]
        if word in YES and not NO.isdisjoint(after):
            end = place + 2 + (after[0] not in NO)
            words = words[:place] + words[end:]
            break
    ends = ("か", "요", "까")  # with "or", which these, and Turkish, need no word for
    asked = sum(word.endswith(ends) or _TURKISH_ASKS.fullmatch(word) is not None for word in words)
    return asked > 1 or any(word in _TURNED or word in NO or _TURNED_PARTS.search(word) for word in words)


def times_listed(label: str, words: str) -> int:
    """How often a number, or a letter, marks a point of a list in the words."""
    if label not in words:  # which spares a pattern made of a whole message
        return 0
    mark = re.escape(label)
    return len(
        re.findall(rf"(?<!\w){mark}(?:[.):]\s|\]|\s*=|\s+[-–—]\s|\ufe0f?\u20e3)|^[^\S\n]*{mark}\s", words, re.MULTILINE)
    )
