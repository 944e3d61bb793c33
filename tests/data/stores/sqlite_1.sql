PRAGMA application_id = 1279677261;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE conversations (
        id TEXT PRIMARY KEY NOT NULL, version INTEGER NOT NULL, session TEXT NOT NULL,
        definition TEXT NOT NULL, state TEXT NOT NULL, ended INTEGER NOT NULL,
        created REAL NOT NULL, updated REAL NOT NULL);
INSERT INTO "conversations" VALUES('golden/1',3,'{"format":1,"conversation_id":"golden/1","definition":"6bb2a8b3716001fa9d14de3aaa25574b08e617d23b792f7e3a2be83cdc3b3633","state":"bye","previous_state":"hello","turn":2,"turns_in_state":0,"context":{"name":"Ada"},"origins":{"name":[2,"model"]},"window":[[null,"Hello!"],["hm \ud800\u0000","Your name?"],["Ada","Bye \ud83d\ude00"]],"user_input":null,"time":1795293011.7031748,"notes":[],"ended":true,"outcome":"final"}','greeting','bye',1,1.7952930116877970695e+09,1.79529301170416903492e+09);
INSERT INTO "conversations" VALUES('golden/2',1,'{"format":1,"conversation_id":"golden/2","definition":"6bb2a8b3716001fa9d14de3aaa25574b08e617d23b792f7e3a2be83cdc3b3633","state":"hello","previous_state":null,"turn":0,"turns_in_state":0,"context":{},"origins":{},"window":[[null,"Hello!"]],"user_input":null,"time":1795293011.7109942,"notes":[],"ended":false,"outcome":null}','greeting','hello',0,1.79529301171168184278e+09,1.79529301171168184278e+09);
CREATE TABLE inbox (
        conversation TEXT NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
        request_id TEXT NOT NULL, number INTEGER NOT NULL,
        PRIMARY KEY (conversation, request_id)) WITHOUT ROWID;
INSERT INTO "inbox" VALUES('golden/1','r1',2);
INSERT INTO "inbox" VALUES('golden/1','r2',3);
CREATE TABLE journal (
        conversation TEXT NOT NULL, step INTEGER NOT NULL, text TEXT NOT NULL,
        PRIMARY KEY (conversation, step)) WITHOUT ROWID;
INSERT INTO "journal" VALUES('golden/2',0,'{"kind": "message", "request_id": "r9", "text": "half", "time": 1.0, "step": 0}');
CREATE TABLE records (
        conversation TEXT NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
        number INTEGER NOT NULL, record TEXT NOT NULL, PRIMARY KEY (conversation, number));
INSERT INTO "records" VALUES('golden/1',1,'{"format":1,"kind":"start","turn":0,"usage":{"calls":1,"attempts":1,"input_tokens":0,"output_tokens":0,"seconds":0.0,"cost":0.0},"events":[{"type":"Started","conversation_id":"golden/1","definition":"6bb2a8b3716001fa9d14de3aaa25574b08e617d23b792f7e3a2be83cdc3b3633","state":"hello","time":1795293011.6602566},{"type":"ModelReplied","asked_for":"greeting","text":"{\"message\":\"Hello!\"}","model":"scripted","mode":"scripted","prompt":{"system":2002,"user":419}},{"type":"BotSaid","text":"Hello!"}]}');
INSERT INTO "records" VALUES('golden/1',2,'{"format":1,"kind":"message","turn":1,"usage":{"calls":1,"attempts":1,"input_tokens":0,"output_tokens":0,"seconds":0.0,"cost":0.0},"events":[{"type":"UserSaid","text":"hm \ud800\u0000","time":1795293011.6949966,"request_id":"r1"},{"type":"ModelReplied","asked_for":"turn","text":"{\"transition\":{\"target_state\":\"hello\",\"context_update\":{}},\"message\":\"Your name?\"}","model":"scripted","mode":"scripted","prompt":{"system":2002,"user":482}},{"type":"MovePicked","target":"hello"},{"type":"BotSaid","text":"Your name?"}]}');
INSERT INTO "records" VALUES('golden/1',3,'{"format":1,"kind":"message","turn":2,"usage":{"calls":1,"attempts":1,"input_tokens":0,"output_tokens":0,"seconds":0.0,"cost":0.0},"events":[{"type":"UserSaid","text":"Ada","time":1795293011.7031748,"request_id":"r2"},{"type":"ModelReplied","asked_for":"turn","text":"{\"transition\":{\"target_state\":\"bye\",\"context_update\":{\"name\":\"Ada\"}},\"message\":\"Bye \ud83d\ude00\"}","model":"scripted","mode":"scripted","prompt":{"system":2002,"user":521}},{"type":"MovePicked","target":"bye"},{"type":"ContextSet","source":"model","values":{"name":"Ada"}},{"type":"StateEntered","state":"bye","previous":"hello","by":"model","transition":"/states/hello/transitions/0"},{"type":"BotSaid","text":"Bye \ud83d\ude00"},{"type":"Ended","outcome":"final"}]}');
INSERT INTO "records" VALUES('golden/2',1,'{"format":1,"kind":"start","turn":0,"usage":{"calls":1,"attempts":1,"input_tokens":0,"output_tokens":0,"seconds":0.0,"cost":0.0},"events":[{"type":"Started","conversation_id":"golden/2","definition":"6bb2a8b3716001fa9d14de3aaa25574b08e617d23b792f7e3a2be83cdc3b3633","state":"hello","time":1795293011.7109942},{"type":"ModelReplied","asked_for":"greeting","text":"{\"message\":\"Hello!\"}","model":"scripted","mode":"scripted","prompt":{"system":2002,"user":419}},{"type":"BotSaid","text":"Hello!"}]}');
COMMIT;
