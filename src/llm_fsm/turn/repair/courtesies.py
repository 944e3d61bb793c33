"""Sentences that thank, greet or agree, and ask for nothing: "Thank you, Ada.", "Got it!", "かしこまりました。".

Those that are known, with at most a name after them: what else stands beside a question may ask for something, too.
Behind a list also those that ask for no more than the list does: "Please choose one.".
"""

from __future__ import annotations

import re

_PHRASES = (
    # English
    r"(?:thank you|thanks)(?: so much| very much| a lot| again| for (?:that|your (?:answer|order|patience|help)))?"
    r"|many thanks"
    r"|great|good|perfect|lovely|fine|excellent|wonderful|super|nice|all right|alright|ok|okay|sure|of course"
    r"|got it|noted"
    r"|understood|done|i see|very well|no problem|you(?:'re|’re| are) (?:very )?welcome|welcome(?: back)?|hello|hi|hey"
    r"|good (?:morning|afternoon|evening|day)|sorry|i am sorry|i['’]m sorry|my pleasure|nice to meet you",
    # German, Dutch, Scandinavian
    r"(?:vielen |herzlichen |besten )?dank|danke(?: schön| sehr)?|gut|sehr gut|prima|alles klar|gerne?|okay|verstanden"
    r"|notiert|(?:herzlich )?willkommen|hallo|guten (?:tag|morgen|abend)|bitte sehr|in ordnung|wunderbar|perfekt"
    r"|toll|klasse|hartelijk (?:bedankt|dank)|dank (?:u|je)(?: wel)?|bedankt|goed|begrepen|welkom"
    r"|goeden?(?:dag|morgen|middag|avond)|graag gedaan|tack(?: så mycket)?|(?:mange )?takk?|bra|fint|hej|hei|välkommen"
    r"|velkommen|utmärkt|perfekt",
    # Romance
    r"merci(?: beaucoup| bien)?|très bien|parfait|d['’]accord|entendu|c['’]est noté|bonjour|bonsoir|salut"
    r"|bienvenue|avec plaisir"
    r"|(?:muchas |mil )?gracias|muy bien|perfecto|de acuerdo|entendido|hola|buen(?:os días|as tardes|as noches)|vale"
    r"|bienvenid[oa]|genial|de nada|(?:muito )?obrigad[oa]|muito bem|perfeito|certo|entendi|olá|oi|bom dia"
    r"|boa (?:tarde|noite)"
    r"|bem-vind[oa]|ótimo|(?:molte |mille )?grazie(?: mille)?|molto bene|bene|perfetto|va bene|capito|ciao"
    r"|buongiorno|buonasera|benvenut[oa]|ottimo|prego|salve|mulțumesc|perfect|bună ziua",
    # Slavonic, Greek, Turkish, Finnish, Hungarian
    r"(?:bardzo )?dziękuję(?: bardzo)?|dzięki|dobrze|świetnie|rozumiem|dzień dobry|witaj|witamy|cześć"
    r"|(?:большое )?спасибо"
    r"|хорошо|отлично|понятно|понял[аи]?|здравствуйте|привет|добрый (?:день|вечер)|дякую|добре|чудово|вітаю|děkuji"
    r"|děkujeme"
    r"|výborně|dobře|dobrý den|ďakujem|(?:σας )?ευχαριστώ(?: πολύ)?|ωραία|τέλεια|εντάξει|καλημέρα|καλησπέρα|γεια σας"
    r"|(?:çok )?teşekkürler|(?:çok )?teşekkür (?:ederim|ederiz)|tamam|harika|anladım|merhaba|hoş geldiniz"
    r"|kiitos(?: paljon)?|hyvä|selvä|hei|tervetuloa|köszönöm(?: szépen)?|köszönjük|rendben|értem|üdvözlöm|jó napot",
    # Arabic, Hebrew, Hindi, and languages without cases
    r"شكرا(?:ً)?(?: لك| لكم| جزيلا(?:ً)?)?|شكرًا(?: لك| لكم| جزيلًا)?|حسنا|حسناً|حسنًا|ممتاز|رائع|تمام|مرحبا"
    r"|مرحباً|مرحبًا|أهلا|أهلاً|أهلا وسهلا"
    r"|السلام عليكم|תודה(?: רבה)?|מצוין|בסדר|הבנתי|שלום|מעולה|धन्यवाद|शुक्रिया|ठीक है|बहुत अच्छा|बढ़िया|नमस्ते"
    r"|समझ गय[ाी]"
    r"|cảm ơn(?: bạn| quý khách)?|xin chào|chào bạn|tuyệt vời|được rồi|terima kasih(?: banyak)?|baik(?:lah)?|halo"
    r"|selamat datang",
    r"(?:どうも)?ありがとう(?:ございます|ございました)?|かしこまりました|承知(?:いた|致)?しました|了解(?:です"
    r"|しました)?|わかりました|分かりました"
    r"|はい|こんにちは|こんばんは|おはようございます|いらっしゃいませ|ようこそ|(?:非常|十分)?[感谢謝]{2}(?:您|你)?"
    r"|多[谢謝]|好的?|明白了?|了解了?|收到"
    r"|[您你]好|[欢歡]迎(?:光[临臨])?|没问题|沒問題|(?:대단히 |정말 )?감사합니다|고맙습니다|고마워요|네|알겠습니다"
    r"|좋습니다|안녕하세요|반갑습니다"
    r"|어서 ?오세요|환영합니다|ขอบคุณ(?:ค่ะ|ครับ)?|สวัสดี(?:ค่ะ|ครับ)?|ได้(?:ค่ะ|ครับ)|ตกลง(?:ค่ะ|ครับ)?|รับทราบ(?:ค่ะ|ครับ)?",
)
_NAME = r"(?-i:[A-ZÀ-ÖØ-ÞŁŚŻŹĆČŠŽĎŘŤİĞŞА-ЯЁІЇЄΑ-ΩΆΈΉΊΌΎΏ][\w'’.-]*)"
"""A word with a capital letter; in scripts that have none only with how people are addressed."""
_COURTESY = re.compile(
    rf"¡?(?:{'|'.join(_PHRASES)})(?:[,،、，]? (?:{_NAME} ?){{1,3}}|[、，, ]?\w{{1,8}}(?:さん|様|님"
    rf"|씨))?[\s.!。！।,，…]*",
    re.IGNORECASE,
)
_INVITATION = re.compile(
    r"(?:^|(?<=[.!?:…]))[^\S\n]*(?:"
    r"(?:so |now )?(?:please |just ){0,2}(?:choose|pick|select|reply with|answer with|respond with|enter|type|send|say)"
    r"(?: me)? (?:one|an? (?:number|option)|(?:the|its) number|(?:the|your) (?:option|choice))"
    r"(?: (?:of|from) (?:these|them|the (?:above|following|list|options|following options|options (?:above|below))))?"
    r"(?: (?:above|below|you (?:prefer|want|like|would like)))?"
    r"|(?:bitte )?(?:wähle?n? sie|wähle?|nennen sie|nenne|antworten sie mit|antworte mit) (?:bitte )?"
    r"(?:eine?(?: (?:nummer|option))?|(?:die|der|einer) nummer)(?: aus)?"
    r"|(?:veuillez|merci de) (?:en )?(?:choisir|indiquer|saisir)(?: (?:une option|un numéro|le numéro))?"
    r"|(?:por favor,? )?(?:elija|elige|escriba|indique|seleccione|escolha|digite|selecione)"
    r" (?:una opción|un número|el número|uma opção|um número|o número)(?:,? por favor)?"
    r"|(?:per favore,? )?(?:scelga|scegli|indichi|indica|digiti) (?:un['’]opzione|un numero|il numero)"
    r"(?:,? per favore)?)(?:[.!:]+(?=\s|$)|[^\S\n]*$)",
    re.IGNORECASE | re.MULTILINE,
)
"""A sentence that asks for no more than one of what is listed, as the question did: "Please choose one."."""
_NUMBER = re.compile("n(?:umber|ummer|um[eé]ro|úmero)", re.IGNORECASE)


def uninviting(words: str, end: int) -> str:
    """Words without the sentences that only ask to choose from a list, which ends there.

    "Enter a number." may ask for another one where it stands before the list.
    """
    return _INVITATION.sub(lambda one: one[0] if one.start() < end and _NUMBER.search(one[0]) else "", words)


def is_courtesy(sentence: str) -> bool:
    """True where a sentence asks for nothing, as it is one of these."""
    return _COURTESY.fullmatch(sentence) is not None
