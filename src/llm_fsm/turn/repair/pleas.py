"""Sentences that beg for an answer without a question mark, as most requests of a service do in many languages.

Verbs of telling and choosing, in some thirty languages: "Please tell us your name." begs, "Please wait." does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

_THEN = (
    r"(?:so|and|now|then|first|und|dann|nun|jetzt|also|en|dan|nu|och|og|maintenant|alors|et|ahora|entonces|y|ora|allora|e"
    r"|agora|então|teraz|więc)"
)
"""What a sentence may begin with before its verb."""
_WAITING = re.compile(
    r"\b(?:moment\w*|minut\w*|(?<!the )(?<!your )second|seconds|sekund\w*|segundos?|secondes?|second[oi]|augenblick"
    r"|un instant|instant[ei]s?|attimo|ogenblik|geduld|patience|paciencia|paciência|pazienza|chwil\w*|cierpliw\w*"
    r"|секунд\w*|минут\w*|хвилин\w*)\b",
    re.IGNORECASE,
)
"""What is begged for where nothing is asked: "Please give me a moment."."""
_OFFER = re.compile(
    r"あれば|あったら|(?:まし|でし)たら|場合[は、]|際[はに]|いつでも|何でも|気軽"
    r"|(?<![例比])如(?![何下])|若|的[话話]|有[^，,]{0,4}(?:问题|問題|疑[问問]|需要)"
    r"|[으하시되]면(?=[ ,])|경우|언제든|หาก|ถ้า|กรณี|अगर|यदि|\bnếu\b|\b(?:eğer|olursa|varsa)\b"
    r"|(?:^(?:bei|om|ha)|\b(?:if|should|wenn|falls|sollten?|als|mocht|hvis|si|se|s['’]il(?! \w+ pla[iî]t)|caso|dacă"
    r"|jeśli|jeżeli|w razie|pokud|kdyby|ak|если|якщо|αν|εάν|jos|إذا|אם))\b.{0,60}\b(?:questions?|anything|something"
    r"|else|help|problems?|needs?|fragen?|hilfe|etwas|brauchen|vra(?:ag|gen)|hulp|iets|nodig|frågor|undrar|hjälp"
    r"|sp[øo]r(?:gs|s)mål|hj[æe]lp|noget|noe|besoin|aide|chose|preguntas?|dudas?|dúvidas?|perguntas?|domand[ae]"
    r"|dubbi|ayuda|ajuda|aiuto|necesit\w*|precis\w*|bisogno|algo|altro|întreb\w*|nevoie|ceva|pyta[nń]\w*|pomoc\w*"
    r"|potrzeb\w*|dotaz\w*|otázk\w*|вопрос\w*|помощ\w*|непонят\w*|нужн\w*|питан\w*|допомог\w*|потрібн\w*|απορ\w*"
    r"|ερωτ\w*|βοήθεια|χρειάζ\w*|κάτι|kysy\w*|apua|jotain|tarvit\w*|kérdés\w*|segítség\w*|valami\w*|szükség\w*|سؤال"
    r"|أسئلة|استفسار\w*|مساعدة|احتجت|شيء|שאל\w*|עזרה|צריכ\w*|משהו)\b",
    re.IGNORECASE,
)
"""What makes a sentence an offer to listen: an "if", in many languages with questions, help or a need behind it."""
_FORMS = (
    # English, German, Dutch, Scandinavian
    r"\bplease (?:now |first |also |just |then )?(?:tell|enter|provide|choose|select|describe|type|share|specify|state"
    r"|name|pick|answer|explain|confirm|let (?:me|us) know(?! if)|say|spell|give (?:me|us|your))\b",
    r"^(?:tell|give) (?:me|us)\b(?! a (?:call|ring))",
    r"\bbitte (?:\w+ ){0,2}?(?:gib|teil(?:e|en sie|t)? (?:mir|uns)|mitteilen|(?:an|ein|aus)?(?:nenn|sag|geb|beschreib"
    r"|schilder|wähl|bestätig|erzähl|erläuter|schreib|tipp)(?:e|e?n|e?t)?)\b",
    r"^(?:nennen|sagen|geben|beschreiben|schildern|wählen|teilen|bestätigen|erzählen|schreiben) sie\b",
    r"^(?:geef|noem|vertel|beschrijf|kies|bevestig|vermeld|voer|vul)\b",
    r"^(?:ange|beskriv|berätta|välj|uppge|bekräfta|angiv|oplys|fortæl|vælg|bekræft|oppgi|fortell|velg|bekreft)\b",
    # Romance
    r"\bveuillez (?:\w+ |[mn]')?(?:indiquer|donner|préciser|décrire|choisir|saisir|entrer|communiquer|dire|confirmer"
    r"|sélectionner|fournir|renseigner|expliquer)\b",
    r"^(?:s['’]il (?:vous|te) pla[iî]t,? )?(?:indiquez|donnez|dites|précisez|décrivez|choisissez|communiquez"
    r"|confirmez|saisissez|expliquez|racontez)\b",
    r"(?:^|\bpor favor,? )(?:me |nos )?(?:ind[ií]que|d[ií]ga|dime|facil[ií]t[ae]|proporcion[ae]|escrib[ae]|describ[ae]"
    r"|elij[ae]|seleccion[ae]|introduz?[cj]a|confirme|cu[eé]nte|compart[ae]|d[eé](?:me|nos)|informe|descrev[ae]|escolh[ae]"
    r"|forneça|digite|conte(?! com| conosco)|selecione|insira|esclareça)(?:me|nos|-me|-nos)?\b",
    r"^(?:(?:per favore|mi|ci),? ){0,2}(?:indichi|dica|dimmi|descriva|scelga|inserisca|confermi|fornisca|comunichi"
    r"|racconti|specifichi|indicami|scriva)\b",
    r"\b(?:spune|indica|alege|descrie|introduce|confirma|furniza|preciza|scrie)ți(?:-mi|-ne)?\b",
    # Slavonic
    r"\bproszę (?:o (?!wyrozum|wybacz|kontakt|tym|uwag)|(?:mi |nam |też |teraz )?(?:podać|opisać|wybrać|napisać"
    r"|powiedzieć|wskazać|wpisać|potwierdzić|określić|wyjaśnić))",
    r"^(?:podaj|opisz|wybierz|napisz|powiedz|wskaż|wpisz|potwierdź|określ)(?:cie)?\b",
    r"\b(?:uveďte|zadejte|zadajte|popište|opíšte|vyberte|napište|napíšte|řekněte|povedzte|potvrďte|sdělte)\b",
    r"\b(?:укажите|назовите|введите|опишите|выберите|сообщите|напишите|скажите|подтвердите|расскажите|уточните"
    r"|вкажіть|назвіть|введіть|опишіть|виберіть|оберіть|повідомте|напишіть|скажіть|підтвердьте|розкажіть|уточніть)\b",
    # Greek, Turkish, Finnish, Hungarian
    r"\b(?:πείτε|δώστε|περιγράψτε|επιλέξτε|γράψτε|επιβεβαιώστε|εισαγάγετε|δηλώστε|αναφέρετε)\b",
    r"\b(?:belirt|yaz|söyle|gir|seç|anlat|paylaş|onayla|ilet|bildir)(?:[yiıuü]{1,2}n)(?:[iıuü]z)?(?=[.!\s]*$)",
    r"(?<!en )(?<!et )(?<!ei )(?<!emme )(?<!ette )(?<!eivät )(?<!älä )\b(?:kerro|kertokaa"
    r"|kirjoita|kirjoittakaa|valitse|valitkaa|kuvaile|kuvailkaa|ilmoita|ilmoittakaa|vahvista|vahvistakaa)\b",
    r"\b(?:adja|írja|mondja|ossza|erősítse) (?:meg|be|le|el)\b|\bválassz",
    # Arabic, Hebrew, Hindi
    r"(?:يرجى|الرجاء|من فضلك،?) (?:ال|أن )?(?:كتابة|[إا]دخال|تحديد|اختيار|ذكر|تزويد|[إا]خبار|تأكيد|وصف|تقديم|[إا]عطا"
    r"|[إا]جابة|توضيح|مشاركة|[إا]رسال|[أا]دخل|اكتب|اختر|اذكر|[أا]خبر|حدد|أكد)|\b(?:أخبرني|أخبرنا|اذكر|اكتب|أدخل|اختر)\b",
    r"(?:אנא|בבקשה),? (?:ציין|ציינו|הזן|הזינו|כתוב|כתבו|בחר|בחרו|ספר|ספרו|תאר|תארו|אשר|אשרו|מסור|מסרו)",
    r"(?:बता|लिख|चुन)(?:इए|इये|एं|एँ|ें)|(?:दर्ज|साझा|पुष्टि|स्पष्ट) कर(?:ें|िए)",
    # What is needed of whoever is spoken to
    r"\b(?:i|we)(?:'ll|’ll)?(?: will| just| still| also| now| only){0,2} need your\b",
    r"\b(?:brauche|benötige)n?(?: ich| wir)?(?: noch| nur| bitte| jetzt){0,2} (?:ihre|deine)[nrsm]?\b"
    r"(?!.{0,60} nicht\b)",
    r"\bheb(?:ben)?(?: ik| we)?(?: nog| alleen){0,2} (?:uw|je) .{1,40}(?<!niet )nodig\b",
    r"(?<!\bno )\bnecesit(?:o|amos) (?:su|tu)s?\b|(?<!não )\bprecis(?:o|amos) d[aeo]s? (?:seu|sua)s?\b"
    r"|(?<!non ho )\bbisogno del(?:la)? (?:suo|sua|tuo|tua)\b"
    r"|(?<!pas )\bbesoin d[eu] (?:votre|vos|ton|ta)\b|(?<!nie )\bpotrzebuję (?:jeszcze )?(?:pana|pani|twoj)"
    r"|(?<!\bне )\bнуж(?:ен|на|но|ны) ваш",
    r"(?<![不无無])需要[您你]的(?!耐心)",
    # The thing alone: "Your name, please."
    r"^(?:(?:just|only|may i have|can i have|nur|noch|nog|il|la|o|a) )?"
    r"(?:your|ihre?n?|deine?n?|su|tu|votre|vos|ton|ta|suo|sua|tuo|tua|seu|uw|je)\b.{1,60}"
    r" (?:please|bitte|por favor|s['’]il (?:vous|te) pla[iî]t|per favore|alstublieft|alsjeblieft)[.!]?$",
    # Japanese, Chinese, Korean, Vietnamese, Indonesian, Thai
    r"(?<=[をからり、])(?:[おご](?:知らせ|入力|選択|記入|指定|回答|記載)|知らせて|(?:入力|選択|記入|指定|回答|記載)して|仰って"
    r"|おっしゃって)(?:くだ|下)さい(?:ね|ませ)?[。！]?$|(?:教え|聞かせ|答え|選び|選ん)[てで]?(?:くだ|下)さい(?:ね|ませ)?[。！]?$",
    r"[请請](?:您|你|先|再|把|將|将){0,2}(?:问|問|告[诉訴]|提供|[输輸]入|填[写寫]|[选選][择擇]?|[说說]明|描述|回答|[确確][认認]"
    r"|[报報](?![警到])|留下|[说說]|[写寫](?!信)|[补補]充)",
    r"(?:알려|말씀해|말해|입력해|선택해|골라|적어|답해|확인해|설명해|불러|제공해) ?(?:주세요|주십시오|주시기|줘)",
    r"\b(?:vui lòng|xin|hãy) (?:\w+ ){0,2}?(?:cho (?:\w+ ){0,2}?biết|nhập|chọn|cung cấp|mô tả|xác nhận|điền)\b",
    r"\b(?:mohon|silakan|tolong|sila) (?:\w+ )?(?:\w{0,4})(?:sebut|masukkan|isi(?:kan)?\b|pilih|jelas|cerita|tulis"
    r"|konfirmasi|beri ?tahu)",
    r"(?:กรุณา|โปรด|รบกวน|(?<!\S)ช่วย(?!\S*แล้ว))(?:คุณ)?(?:แจ้ง|บอก|ระบุ|กรอก|เลือก|อธิบาย|ยืนยัน|พิมพ์|เล่า)",
)

_REQUESTS = (
    # Politeness, which hardly stands anywhere else
    r"\b(?:please|bitte|veuillez|s['’]il (?:vous|te) pla[iî]t|por favor|per (?:favore|cortesia)|proszę|prosím"
    r"|kérem|kérjük"
    r"|пожалуйста|будь ласка|παρακαλώ|lütfen|als(?:tu|je)blieft|vänligen|snälla|venn?ligst|mohon|silakan|tolong"
    r"|vui lòng|xin|hãy|कृपया|يرجى|الرجاء|رجاء|من فضلك|אנא|בבקשה)\b",
    r"[请請]|麻[烦煩]|กรุณา|โปรด|รบกวน|ช่วย|(?:くだ|下)さい|なさい|お願い|(?:세요|십시오|시오|줘요?|바랍니다"
    r"|부탁드립니다|부탁해요)[.!]?$",
    # Verbs that begin with what is to be done
    r"^(?:then |also |next |finally |don['’]t forget to |remember to )*(?:rate|review|score|rank|vote|enter|choose"
    r"|pick|select"
    r"|type|name|confirm|state|specify|indicate|describe|write|reply|respond|answer|press|dial|say|spell|send|text"
    r"|provide"
    r"|share|list|explain|check|tick|mark|repeat|count|estimate|guess|give|tell|fill|complete|submit|upload|verify"
    r"|accept|agree|show|add|put|let (?:me|us))\b",
    r"^\w{2,}en sie\b|^(?:bewert|gib|nenn|sag|wähl|schreib|tipp|bestätig|beschreib|trag|antwort|drück|erzähl"
    r"|schätz|schick)(?:e|st)?\b",
    r"^(?:\w{2,}(?<!ch)(?<!ass)ez|note|évalue|donne|dis|choisis|indique|tape|entre|écris|confirme|réponds|décris"
    r"|précise)\b",
    r"^(?:calif(?:ique|ica)|val[uoú]r[ea]|valuti|valuta|eval[uúù]?[ea]|puntúe|puntúa|avalie|avalia|classifique"
    r"|vote|voti|dé|dê"
    r"|dê-nos|denos|dia|dica|diga|dime|escrib[ae]|escrev[ae]|scriva|scrivi|elij[ae]|elige|escolh[ae]|scelga|scegli"
    r"|indi(?:que"
    r"|ca|chi)|introduzca|ingres[ae]|inserisca|insira|digiti?e?|marque|premi|prema|pulse|confirm[ae]|confermi|conferma"
    r"|respond[ae]|rispond[ai]|inform[ae]|env[ií][ea]|anote|seleccion[ae]|selecion[ae]|selezioni|teclee)\b",
    r"^(?:beoordeel|geef|noem|kies|vul|voer|typ|schrijf|bevestig|antwoord|druk|zeg|vertel|stuur|betygsätt|bedöm"
    r"|ange|skriv"
    r"|välj|vælg|velg|svara?|bekräfta|bekræft|bekreft|tryck|trykk?|angiv?|oppgi|vurd[eé]r|bedøm|nämn|nævn|fyll"
    r"|udfyld|giv|ge|gi)\b",
    r"^(?:\w{2,}(?:cie|aj|uj|yj)|oceń|podaj|wybierz|napisz|wpisz|potwierdź|powiedz|wskaż|określ|naciśnij|odpowiedz)\b"
    r"|^\w{2,}(?:[jěščžťď]te)\b",
    r"^(?:\w+(?:ите|йте|ьте|іть|йтесь)|оцени|введи|укажи|назови|выбери|напиши|подтверди|скажи|ответь|нажми|оціни"
    r"|вкажи)\b",
    r"^\w+(?:[σξψ]τε|άτε|είτε|ήστε)\b|\b\w{2,}[yiıuü]n(?:[iıuü]z)?[.!]*$",
    r"^(?:arvioi|anna|kerro|kirjoita|valitse|syötä|ilmoita|vahvista|vastaa|paina|\w+(?:kaa|kää))\b|^\w+(?:j[eoö]n"
    r"|[sz]{1,2}[oeö]n)\b",
    r"^(?:قي[ّ]?م|اختر|[أا]دخل|اكتب|حدد|[أا]كد|[أا]خبر|[أا]جب|اذكر|[أا]رسل|اضغط|صف|[أا]عط)|^(?:דרג|בחר|הזן|הזינ"
    r"|הקלד|כתב|כתוב|אשר|ספר|ציין|הקש|ענה|תאר)|(?:करें|दीजिए|कीजिए|[ा-ौ]?[इए]ए|िये|[ा-ौ]ओ|ें|एँ)[।.!]*$",
    r"^(?:đánh giá|nhập|chọn|cho (?:chúng )?tôi|nilai|beri|masukkan|pilih|sebutkan|ketik|tulis|isi|jawab|tekan"
    r"|ให้คะแนน|评|評|给|給)",
)
"""What a sentence has that may be a request, in whatever it asks for; many that are none have it, too."""


def begs(sentence: str) -> bool:
    """True when one sentence begs for an answer."""
    return may_beg(sentence) and not (_WAITING.search(sentence) or _OFFER.search(sentence))


def may_beg(sentence: str) -> bool:
    """True also for what reads as an offer, or begs for time."""
    return _begging().search(sentence) is not None


def may_request(sentence: str) -> bool:
    """True also for what has no more than the form of a request: "Rate us from 1 to 5.", "Valuti il servizio."."""
    return may_beg(sentence) or _requesting().search(sentence) is not None


@cache
def _begging() -> re.Pattern[str]:
    """Compiled when it is first needed: that takes longer than importing all that a conversation is made of."""
    return _compiled(_FORMS)


@cache
def _requesting() -> re.Pattern[str]:
    return _compiled(_REQUESTS)


def _compiled(forms: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(forms).replace("^", f"^(?:{_THEN},? )?"), re.IGNORECASE)
