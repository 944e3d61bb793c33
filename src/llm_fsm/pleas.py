"""Sentences that beg for an answer without a question mark, as most requests of a service do in many languages.

Verbs of telling and choosing, in some thirty languages: "Please tell us your name." begs, "Please wait." does not.
"""

from __future__ import annotations

import re
from functools import cache

_THEN = (
    r"(?:so|and|now|then|first|dann|nun|jetzt|also|dan|nu|maintenant|alors|et|ahora|entonces|y|ora|allora|e|agora|então"
    r"|teraz|więc)"
)
"""What a sentence may begin with before its verb."""
_WAITING = re.compile(
    r"\b(?:moment\w*|minut\w*|seconds?|sekund\w*|segundos?|secondes?|second[oi]|augenblick|instante?s?|attimo|ogenblik"
    r"|chwil\w*|cierpliw\w*|секунд\w*|минут\w*|хвилин\w*)\b",
    re.IGNORECASE,
)
"""What is begged for where nothing is asked: "Please give me a moment."."""
_OFFER = re.compile(
    r"あれば|あったら|(?:まし|でし)たら|場合[は、]|際[はに]|いつでも|何でも|気軽"
    r"|(?<![例比])如(?![何下])|若|的[话話]|有[^，,]{0,4}(?:问题|問題|疑[问問]|需要)"
    r"|[으하시되]면(?=[ ,])|경우|언제든|หาก|ถ้า|กรณี|अगर|यदि|\bnếu\b",
    re.IGNORECASE,
)
"""What makes a sentence an offer to listen, in languages that say so outright: "If anything is missing, tell us"."""
_FORMS = (
    # English, German, Dutch, Scandinavian
    r"\bplease (?:now |first |also |just |then )?(?:tell|enter|provide|choose|select|describe|type|share|specify|state"
    r"|name|pick|answer|explain|confirm|let (?:me|us) know(?! if)|say|spell|give (?:me|us|your))\b",
    r"^(?:tell|give) (?:me|us)\b",
    r"\bbitte (?:\w+ ){0,2}?(?:nenn|sag|geb|gib|beschreib|schilder|wähl|teil|bestätig|erzähl|erläuter|schreib|tipp)\w*",
    r"^(?:nennen|sagen|geben|beschreiben|schildern|wählen|teilen|bestätigen|erzählen|schreiben) sie\b",
    r"^(?:geef|noem|vertel|beschrijf|kies|bevestig|vermeld|voer|vul)\b",
    r"^(?:ange|beskriv|berätta|välj|uppge|bekräfta|angiv|oplys|fortæl|vælg|bekræft|oppgi|fortell|velg|bekreft)\b",
    # Romance
    r"\bveuillez (?:\w+ |[mn]')?(?:indiquer|donner|préciser|décrire|choisir|saisir|entrer|communiquer|dire|confirmer"
    r"|sélectionner|fournir|renseigner|expliquer)\b",
    r"^(?:indiquez|donnez|dites|précisez|décrivez|choisissez|communiquez|confirmez|saisissez|expliquez|racontez)\b",
    r"(?:^|\bpor favor,? )(?:me |nos )?(?:ind[ií]que|d[ií]ga|dime|facil[ií]t[ae]|proporcion[ae]|escrib[ae]|describ[ae]"
    r"|elij[ae]|seleccion[ae]|introduz?[cj]a|confirme|cu[eé]nte|compart[ae]|d[eé](?:me|nos)|inform[ae]|descrev[ae]|escolh[ae]"
    r"|forneça|digite|conte|selecione|insira|esclareça)(?:me|nos|-me|-nos)?\b",
    r"^(?:(?:per favore|mi|ci),? ){0,2}(?:indichi|dica|dimmi|descriva|scelga|inserisca|confermi|fornisca|comunichi"
    r"|racconti|specifichi|indicami|scriva)\b",
    r"\b(?:spune|indica|alege|descrie|introduce|confirma|furniza|preciza|scrie)ți(?:-mi|-ne)?\b",
    # Slavonic
    r"\bproszę (?:o (?!wyrozum|wybacz|kontakt)|(?:mi |nam |też |teraz )?(?:podać|opisać|wybrać|napisać|powiedzieć"
    r"|wskazać|wpisać|potwierdzić|określić|wyjaśnić))",
    r"^(?:podaj|opisz|wybierz|napisz|powiedz|wskaż|wpisz|potwierdź|określ)(?:cie)?\b",
    r"\b(?:uveďte|zadejte|zadajte|popište|opíšte|vyberte|napište|napíšte|řekněte|povedzte|potvrďte|sdělte)\b",
    r"\b(?:укажите|назовите|введите|опишите|выберите|сообщите|напишите|скажите|подтвердите|расскажите|уточните"
    r"|вкажіть|назвіть|введіть|опишіть|виберіть|оберіть|повідомте|напишіть|скажіть|підтвердьте|розкажіть|уточніть)\b",
    # Greek, Turkish, Finnish, Hungarian
    r"\b(?:πείτε|δώστε|περιγράψτε|επιλέξτε|γράψτε|επιβεβαιώστε|εισαγάγετε|δηλώστε|αναφέρετε)\b",
    r"\b(?:belirt|yaz|söyle|gir|seç|anlat|paylaş|onayla|ilet|bildir)(?:[yiıuü]{1,2}n)(?:[iıuü]z)?(?=[.!\s]*$)",
    r"\b(?:kerro|kertokaa|kirjoita|kirjoittakaa|valitse|valitkaa|kuvaile|kuvailkaa|ilmoita|ilmoittakaa|vahvista"
    r"|vahvistakaa)\b",
    r"\b(?:adja|írja|mondja|ossza|erősítse) (?:meg|be|le|el)\b|\bválassz",
    # Arabic, Hebrew, Hindi
    r"(?:يرجى|الرجاء|من فضلك،?) (?!ال?انتظار|انتظر|ملاحظة|العلم|الانتباه)|\b(?:أخبرني|أخبرنا|اذكر|اكتب|أدخل|اختر)\b",
    r"(?:אנא|בבקשה),? (?:ציין|ציינו|הזן|הזינו|כתוב|כתבו|בחר|בחרו|ספר|ספרו|תאר|תארו|אשר|אשרו|מסור|מסרו)",
    r"(?:बता|लिख|चुन)(?:इए|इये|एं|एँ|ें)|(?:दर्ज|साझा|पुष्टि|स्पष्ट) कर(?:ें|िए)",
    # What is needed of whoever is spoken to
    r"\b(?:i|we)(?:'ll|’ll)?(?: will| just| still| also| now| only){0,2} need your\b",
    r"\b(?:brauche|benötige)n?(?: ich| wir)?(?: noch| nur| bitte| jetzt){0,2} (?:ihre|deine)(?:n|r|s|m)?\b",
    r"\bheb(?:ben)?(?: ik| we)?(?: nog| alleen){0,2} (?:uw|je) .{1,40}nodig\b",
    r"\bnecesit(?:o|amos) (?:su|tu)s?\b|\bprecis(?:o|amos) d[aeo]s? (?:seu|sua)s?\b"
    r"|\bbisogno del(?:la)? (?:suo|sua|tuo|tua)\b"
    r"|\bbesoin d[eu] (?:votre|vos|ton|ta)\b|\bpotrzebuję (?:jeszcze )?(?:pana|pani|twoj)|\bнуж(?:ен|на|но|ны) ваш",
    r"需要[您你]的",
    # The thing alone: "Your name, please."
    r"\b(?:your|ihre?n?|deine?n?|su|tu|votre|vos|ton|ta|suo|sua|tuo|tua|seu|uw|je)\b.{1,60}"
    r" (?:please|bitte|por favor|s['’]il (?:vous|te) pla[iî]t|per favore|alstublieft|alsjeblieft)[.!]?$",
    # Japanese, Chinese, Korean, Vietnamese, Indonesian, Thai
    r"(?<=[をからり、])(?:[おご](?:知らせ|入力|選択|記入|指定|回答|記載)|知らせて|(?:入力|選択|記入|指定|回答|記載)して|仰って"
    r"|おっしゃって)(?:くだ|下)さい(?:ね|ませ)?[。！]?$",
    r"[请請](?:您|你|先|再|把|將|将){0,2}(?:问|問|告[诉訴]|提供|[输輸]入|填[写寫]|[选選][择擇]?|[说說]明|描述|回答|[确確][认認]"
    r"|[报報]|留下|[说說]|[写寫]|[补補]充)",
    r"(?:알려|말씀해|말해|입력해|선택해|골라|적어|답해|확인해|설명해|불러|제공해) ?(?:주세요|주십시오|주시기|줘)",
    r"\b(?:vui lòng|xin|hãy) (?:\w+ ){0,2}?(?:cho (?:\w+ ){0,2}?biết|nhập|chọn|cung cấp|mô tả|xác nhận|điền)\b",
    r"\b(?:mohon|silakan|tolong|sila) (?:\w+ )?(?:\w{0,4})(?:sebut|masuk|isi|pilih|jelas|cerita|tulis|konfirmasi"
    r"|beri ?tahu)",
    r"(?:กรุณา|โปรด|ช่วย|รบกวน)(?:คุณ)?(?:แจ้ง|บอก|ระบุ|กรอก|เลือก|อธิบาย|ยืนยัน|พิมพ์|เล่า)",
)


def begs(sentence: str) -> bool:
    """True when one sentence begs for an answer."""
    return _begging().search(sentence) is not None and not (_WAITING.search(sentence) or _OFFER.search(sentence))


@cache
def _begging() -> re.Pattern[str]:
    """Compiled when it is first needed: that takes longer than importing all that a conversation is made of."""
    return re.compile("|".join(_FORMS).replace("^", f"^(?:{_THEN},? )?"), re.IGNORECASE)
