"""What words ask: which sentences, and whether two ask the same."""

from __future__ import annotations

import pytest

from llm_fsm.turn.repair.questions import asks, is_nearer, puts, question_in, several, takes, told_in


@pytest.mark.parametrize(
    ("said", "question"),
    [
        ("Welcome! What is your name?", "What is your name?"),
        ("For groups we ask for a deposit. Is that all right?", "For groups we ask for a deposit. Is that all right?"),
        ("We are open all day. Which day would you like to come, and at what time?",
         "Which day would you like to come, and at what time?"),
        ("Your name, please.", "Your name, please."),
        ("One moment, please.", ""),
        ("What? And where?", "What? And where?"),
        ("Your balance is 100 euros.\n\nHow much?", "How much?"),
        ("Are you still there?\n\nHow much? In euros.\n\nWe are open.", "How much?"),
        ("かしこまりました。サイズはどれですか。", "サイズはどれですか。"),
        ("आपका नंबर लिख लिया गया है, धन्यवाद। आप किस दिन और किस समय आना चाहेंगे?", "आप किस दिन और किस समय आना चाहेंगे?"),
        ("آپ کا نمبر لکھ لیا گیا ہے۔ آپ کس دن اور کس وقت آنا چاہیں گے؟", "آپ کس دن اور کس وقت آنا چاہیں گے؟"),
        ("承知しました。お電話番号を教えてください。", "お電話番号を教えてください。"),
        ("承知しました。少々お待ちください。", ""),
        ("ขอบคุณค่ะ จดหมายเลขไว้แล้วค่ะ คุณสะดวกให้เราไปส่งที่บ้านวันไหนคะ", "คุณสะดวกให้เราไปส่งที่บ้านวันไหนคะ"),
        ("かしこまりました。お届け先は？", "かしこまりました。お届け先は？"),
        ("Το διόρθωσα. Θα έρθετε το πρωί της Τρίτης στις 8; Είμαστε εδώ.", "Θα έρθετε το πρωί της Τρίτης στις 8;"),
        ("Call us; we are here. α > 5; β.", ""),
        ("All right. Please tell us your name.", "Please tell us your name."),
        ("謝謝您的耐心等候。請輸入六位數驗證碼。", "請輸入六位數驗證碼。"),
        ("That makes 50 euros. Please confirm.", "That makes 50 euros. Please confirm."),
        ("Claims are settled within thirty days. Now tell me your age.", "Now tell me your age."),
    ],
)  # fmt: skip
def test_a_short_question_takes_along_what_it_leans_on(said: str, question: str) -> None:
    assert question_in(said) == question


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("2,000 it is. On which day?", "2,000 it is."),
        ("On which day?", ""),
        ("Noted!\n\nOn which day? Take your time.", "Noted!\n\nTake your time."),
        ("かしこまりました。サイズはどれですか。", "かしこまりました。"),
        ("नंबर लिख लिया है। आप कब आएंगे?", "नंबर लिख लिया है।"),
        ("Nothing is asked here.", "Nothing is asked here."),
        ("Είμαστε ανοιχτά 8 με 18. Πώς σας λένε;", "Είμαστε ανοιχτά 8 με 18."),
    ],
)
def test_what_is_told_is_left_where_the_questions_go(said: str, told: str) -> None:
    assert told_in(said) == told


@pytest.mark.parametrize(
    ("text", "asking"),
    [
        *((text, True) for text in ("ขอบคุณค่ะ คุณชื่ออะไรคะ", "ต้องการส่งไปที่ไหนครับ", "สะดวกวันไหน", "มากี่คนครับ", "ถูกต้องไหม")),
        *((text, False) for text in ("รอสักครู่นะคะ", "ใช้เวลาไม่กี่นาทีค่ะ", "ไม่เป็นไรครับ", "ขอบคุณค่ะ", "ใครก็ได้ค่ะ")),
        *((text, True) for text in ("Ποια μέρα;", "«Πρωί ή απόγευμα;»", "Έχετε Wi-Fi; Ναι.")),
        *((text, False) for text in ("Ναι· και όχι.", "Write x=1;", "&lt; α;")),
    ],
)
def test_thai_asks_by_words_and_greek_by_what_is_a_semicolon_elsewhere(text: str, asking: bool) -> None:
    assert asks(text) is asking


@pytest.mark.parametrize(
    ("begging", "other"),
    [
        ("Now, tell me your number.", "Please wait a moment."),
        ("Please give me your number.", "Please give me a second."),
        ("I'll just need your number.", "I need a moment."),
        ("Dann brauche ich noch Ihre Nummer.", "Dafür brauche ich etwas Zeit."),
        ("Necesito su número de teléfono.", "No necesito nada más."),
        ("Мне нужен ваш номер.", "Номер не нужен."),
        ("我需要您的電話號碼。", "不需要預約。"),
        ("Votre numéro, s’il vous plaît.", "Un instant, s’il vous plaît."),
        ("Nennen Sie mir bitte Ihre Nummer.", "Bitte beachten Sie die Frist."),
        ("Dann geben Sie bitte Ihre Nummer an.", "Bitte haben Sie einen Augenblick Geduld."),
        ("Geef uw nummer, alstublieft.", "Een ogenblik, alstublieft."),
        ("Uppge ditt nummer.", "Tack för din fråga."),
        ("Veuillez m'indiquer votre numéro.", "Veuillez patienter."),
        ("Por favor, indíquenos su teléfono.", "Por favor, espere."),
        ("Me informe seu telefone.", "Aguarde, por favor."),
        ("Mi dica il suo numero.", "Le dico subito."),
        ("Vă rog să ne spuneți numărul.", "Vă rog să așteptați."),
        ("Proszę o numer telefonu.", "Proszę o chwilę cierpliwości."),
        ("Teraz podaj numer.", "Podałem numer."),
        ("Uveďte prosím číslo.", "Čekejte prosím."),
        ("Пожалуйста, укажите номер.", "Пожалуйста, подождите."),
        ("Будь ласка, вкажіть номер.", "Зачекайте, будь ласка."),
        ("Παρακαλώ δώστε τον αριθμό σας.", "Παρακαλώ περιμένετε."),
        ("Lütfen numaranızı yazın.", "Lütfen bekleyin."),
        ("Kerro vielä puhelinnumerosi.", "Hetkinen."),
        ("Kérem, adja meg a számát.", "Kérem, várjon."),
        ("يرجى كتابة رقمك.", "يرجى الانتظار."),
        ("אנא ציינו את המספר.", "אנא המתינו."),
        ("कृपया अपना नंबर बताइए।", "कृपया प्रतीक्षा करें।"),
        ("请提供您的号码。", "请稍等。"),
        ("請先輸入您的號碼。", "請稍候。"),
        ("번호를 알려 주세요.", "잠시만 기다려 주세요."),
        ("Vui lòng cho tôi biết số của bạn.", "Vui lòng đợi."),
        ("Mohon sebutkan nomor Anda.", "Mohon tunggu."),
        ("กรุณาแจ้งเบอร์โทรศัพท์", "กรุณารอสักครู่"),
    ],
)
def test_a_sentence_begs_for_an_answer_without_a_question_mark(begging: str, other: str) -> None:
    assert puts(begging)
    assert not puts(other)
    assert not asks(begging)  # to which yes and no are no answer


@pytest.mark.parametrize(
    ("text", "begging"),
    [
        ("お電話番号をお知らせください。", True),
        ("サイズを選択してください", True),
        ("次の中からご選択ください。", True),
        ("かしこまりました。お名前をご入力くださいませ。", True),
        ("ご不明な点がございましたら、お知らせください。", False),
        ("変更はお早めに係員にお知らせください。", False),
        ("好的，請提供您的電話號碼。", True),
        ("请选择尺寸", True),
        ("如有疑问，请告诉我们。", False),
        ("有问题请告诉我。", False),
        ("날짜를 입력해주세요", True),
        ("크기를 선택해 주십시오.", True),
        ("궁금한 점이 있으시면 알려 주세요.", False),
        ("언제든지 말씀해 주세요.", False),
        ("กรุณาระบุหมายเลขโทรศัพท์ค่ะ", True),
        ("หากมีคำถาม กรุณาแจ้งเราค่ะ", False),
        ("कृपया अपना फ़ोन नंबर दर्ज करें।", True),
        ("कृपया ध्यान दें।", False),
        ("अगर कोई सवाल हो तो कृपया बताएं।", False),
        ("Vui lòng nhập số điện thoại.", True),
        ("Xin cho chúng tôi biết tên của bạn.", True),
        ("Vui lòng cho chúng tôi biết nếu bạn cần gì thêm.", False),
        ("ご不明な点があれば教えてください。", False),
        ("If you have any other questions, please let me know.", False),
        ("If everything is correct, please confirm.", True),
        ("Bitte sagen Sie Bescheid, wenn Sie Hilfe brauchen.", False),
        ("Dites-nous si vous avez des questions.", False),
        ("S'il vous plaît, décrivez votre problème.", True),
        ("Por favor, díganos si necesita algo más.", False),
        ("Conte conosco para o que precisar.", False),
        ("Mi dica se ha altre domande.", False),
        ("Descriva come si presenta il problema.", True),
        ("Berätta om problemet.", True),
        ("Если у вас есть вопросы, напишите нам.", False),
        ("Dacă aveți întrebări, scrieți-ne.", False),
        ("Bir sorunuz olursa lütfen bize yazın.", False),
        ("اكتب لنا إذا احتجت إلى شيء.", False),
    ],
)
def test_an_offer_to_listen_begs_for_nothing(text: str, begging: bool) -> None:
    assert puts(text) is begging


@pytest.mark.parametrize(
    "told",
    [
        *("Take your time, please.", "Please check your inbox; take your time, please.", "Give us a call any time."),
        *("Bitte die Gebühren bar bezahlen.", "Bitte nehmen Sie teil.", "Wir brauchen Ihre Nummer nicht."),
        *("Je vous demande un peu de patience, s'il vous plaît.", "Je n'ai pas besoin de votre numéro."),
        *("No necesito su número.", "Não preciso do seu número.", "Non ho bisogno del suo numero."),
        *("Nie potrzebuję pana numeru.", "Нам не нужен ваш номер.", "我们不需要您的号码。", "请写信给我们。"),
        *("En kerro numeroasi kenellekään.", "يرجى الحضور قبل الموعد.", "Silakan masuk lewat pintu depan."),
        *("ระบบช่วยแจ้งเตือนให้ค่ะ", "Dafür brauche ich Ihre Geduld."),
    ],
)
def test_advice_and_what_is_not_needed_beg_for_nothing(told: str) -> None:
    assert not puts(told)


def test_a_request_beside_a_question_asks_several_things() -> None:
    assert several("请输入您的姓名。您几位？")
    assert several("Please tell us your name. Is it for two?")
    assert several("전화번호를 알려 주세요. 날짜를 입력해 주세요.")
    assert several("How many are you? If you need parking, please tell us for how many cars.")
    assert not several("请输入您的姓名。")


@pytest.mark.parametrize(
    ("text", "first", "second", "nearer"),
    [
        ("On which day shall I send it?", "On which day?", "What is the transfer for?", True),
        ("What is it for?", "On which day?", "What is the transfer for?", False),
        ("トッピングは何にしますか。", "トッピングは何ですか。", "お届け先はどこですか。", True),
        ("", "On which day?", "What is it for?", False),
    ],
)
def test_a_question_is_known_again_by_its_letters(text: str, first: str, second: str, nearer: bool) -> None:
    assert is_nearer(text, first, second) is nearer


@pytest.mark.parametrize(
    ("word", "question", "turned"),
    [
        *(("ja", "Wilt u een bon?", "Wilt u thee of koffie?"), ("ja", "Vill du ha det?", "Har du aldrig varit här?")),
        *(("sì", "Vuole la ricevuta?", "Vuole tè o caffè?"), ("sí", "¿Quiere el recibo?", "¿Tampoco quiere café?")),
        *(("sim", "Quer o recibo?", "Não tem ninguém?"), ("ja", "Haben Sie einen Hund?", "Haben Sie weder noch?")),
        *(("да", "Вам нужен чек?", "Вам чай либо кофе?"), ("ναι", "Θέλετε καφέ;", "Τσάι είτε καφέ;")),
        *(("evet", "Mesajı aldınız mı?", "Çay mı kahve mi?"), ("evet", "Fiş ister misiniz?", "Gelmeyecek misiniz?")),
        *(("네", "영수증 드릴까요?", "차 말고 커피 드릴까요?"), ("네", "영수증 드릴까요?", "아직인가요?")),
        *(("はい", "コーヒーはいかがですか。", "茶か紅茶ですか。"), ("是", "您是否需要发票？", "您无需发票吗？")),
        *(("हाँ", "क्या आपको रसीद चाहिए?", "चाय अथवा कॉफ़ी?"), ("نعم", "هل تريد إيصالا؟", "هل تمانع التسجيل؟")),
        *(("כן", "האם תרצה קבלה?", "ללא סוכר?"), ("evet", "Şekerli mi?", "Şekersiz mi?")),
        *(("yes", "Is one of these yours?", "Is there nothing else?"), ("yes", "Is it here?", "Is it nowhere?")),
        *(("ja", "Wilt u een bon?", "Wilt u het liever nu dan straks?"), ("ja", "Vill du ha det?", "Saknar du något?")),
        *(("sí", "¿Quiere el recibo?", "¿Té u horchata?"), ("evet", "Bugün mü?", "Ya bugün ya yarın mı?")),
        ("ναι", "Θέλετε καφέ;", "Χωρίσ ζάχαρη;"),
    ],
)
def test_yes_says_nothing_for_certain_after_choices_and_turned_questions(word: str, question: str, turned: str) -> None:
    assert takes(word, question)
    assert not takes(word, turned)
