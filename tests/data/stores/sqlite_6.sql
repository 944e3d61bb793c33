PRAGMA application_id = 1279677261;
PRAGMA user_version = 6;
BEGIN TRANSACTION;
CREATE TABLE conversations (
        id TEXT PRIMARY KEY NOT NULL, version INTEGER NOT NULL, session TEXT NOT NULL,
        definition TEXT NOT NULL, state TEXT NOT NULL, ended INTEGER NOT NULL,
        created REAL NOT NULL, updated REAL NOT NULL, definition_sha TEXT, paused TEXT NOT NULL DEFAULT '');
INSERT INTO "conversations" VALUES('golden/1',3,'{"format":1,"conversation_id":"golden/1","definition":"6bb2a8b3716001fa9d14de3aaa25574b08e617d23b792f7e3a2be83cdc3b3633","state":"bye","previous_state":"hello","turn":2,"turns_in_state":0,"context":{"name":"Ada"},"origins":{"name":[2,"model"]},"window":[[null,"Hello!"],["hm \ud800\u0000","Your name?"],["Ada","Bye \ud83d\ude00"]],"user_input":null,"time":1795299020.747102,"notes":[],"ended":true,"outcome":"final"}','greeting','bye',1,1.79529902072389054294e+09,1.79529902074808573719e+09,'6bb2a8b3716001fa9d14de3aaa25574b08e617d23b792f7e3a2be83cdc3b3633','');
INSERT INTO "conversations" VALUES('golden/2',1,'{"format":1,"conversation_id":"golden/2","definition":"6bb2a8b3716001fa9d14de3aaa25574b08e617d23b792f7e3a2be83cdc3b3633","state":"hello","previous_state":null,"turn":0,"turns_in_state":0,"context":{},"origins":{},"window":[[null,"Hello!"]],"user_input":null,"time":1795299020.7636206,"notes":[],"ended":false,"outcome":null}','greeting','hello',0,1.79529902076469254491e+09,1.79529902076469254491e+09,'6bb2a8b3716001fa9d14de3aaa25574b08e617d23b792f7e3a2be83cdc3b3633','');
CREATE TABLE definitions (sha TEXT PRIMARY KEY NOT NULL, text TEXT NOT NULL);
INSERT INTO "definitions" VALUES('6bb2a8b3716001fa9d14de3aaa25574b08e617d23b792f7e3a2be83cdc3b3633','{"context_schema":{"properties":{"name":{"type":"string"}},"type":"object"},"description":"Golden.","initial_state":"hello","name":"greeting","states":{"bye":{"purpose":"Say goodbye."},"hello":{"purpose":"Ask for a name.","required_context_keys":["name"],"transitions":[{"conditions":[{"description":"k","requires_context_keys":["name"]}],"description":"known","target_state":"bye"}]}}}');
CREATE TABLE due (
            conversation TEXT NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
            time REAL NOT NULL, kind TEXT NOT NULL, PRIMARY KEY (conversation, time, kind)) WITHOUT ROWID;
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
CREATE TABLE labels (
            key TEXT NOT NULL, value TEXT NOT NULL,
            conversation TEXT NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
            PRIMARY KEY (key, value, conversation)) WITHOUT ROWID;
INSERT INTO "labels" VALUES('user','ada','golden/1');
CREATE TABLE outbox (
            conversation TEXT NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
            number INTEGER NOT NULL, place INTEGER NOT NULL, sink TEXT NOT NULL, key TEXT NOT NULL,
            text TEXT NOT NULL, PRIMARY KEY (conversation, number, place));
CREATE TABLE records (
        conversation TEXT NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
        number INTEGER NOT NULL, record TEXT NOT NULL, PRIMARY KEY (conversation, number));
INSERT INTO "records" VALUES('golden/1',1,'{"format":1,"kind":"start","turn":0,"usage":{"calls":1,"attempts":1,"input_tokens":0,"output_tokens":0,"seconds":0.0,"cost":0.0},"events":[{"type":"Started","conversation_id":"golden/1","definition":"6bb2a8b3716001fa9d14de3aaa25574b08e617d23b792f7e3a2be83cdc3b3633","state":"hello","time":1795299020.3682513},{"type":"ModelReplied","asked_for":"greeting","text":"{\"message\":\"Hello!\"}","model":"scripted","mode":"scripted","prompt":{"system":264,"schema":174,"current_state":24}},{"type":"BotSaid","text":"Hello!"}]}');
INSERT INTO "records" VALUES('golden/1',2,'{"format":1,"kind":"message","turn":1,"usage":{"calls":1,"attempts":1,"input_tokens":0,"output_tokens":0,"seconds":0.0,"cost":0.0},"events":[{"type":"UserSaid","text":"hm \ud800\u0000","time":1795299020.7350056,"request_id":"r1"},{"type":"ModelReplied","asked_for":"turn","text":"{\"transition\":{\"target_state\":\"hello\",\"context_update\":{}},\"message\":\"Your name?\"}","model":"scripted","mode":"scripted","prompt":{"system":264,"schema":174,"current_state":24,"conversation_history":12,"transitions":37,"user_input":11}},{"type":"MovePicked","target":"hello"},{"type":"BotSaid","text":"Your name?"}]}');
INSERT INTO "records" VALUES('golden/1',3,'{"format":1,"kind":"message","turn":2,"usage":{"calls":1,"attempts":1,"input_tokens":0,"output_tokens":0,"seconds":0.0,"cost":0.0},"events":[{"type":"UserSaid","text":"Ada","time":1795299020.747102,"request_id":"r2"},{"type":"ModelReplied","asked_for":"turn","text":"{\"transition\":{\"target_state\":\"bye\",\"context_update\":{\"name\":\"Ada\"}},\"message\":\"Bye \ud83d\ude00\"}","model":"scripted","mode":"scripted","prompt":{"system":264,"schema":174,"current_state":24,"conversation_history":24,"transitions":37,"user_input":8}},{"type":"MovePicked","target":"bye"},{"type":"ContextSet","source":"model","values":{"name":"Ada"}},{"type":"StateEntered","state":"bye","previous":"hello","by":"model","transition":"/states/hello/transitions/0"},{"type":"BotSaid","text":"Bye \ud83d\ude00"},{"type":"Ended","outcome":"final"}]}');
INSERT INTO "records" VALUES('golden/2',1,'{"format":1,"kind":"start","turn":0,"usage":{"calls":1,"attempts":1,"input_tokens":0,"output_tokens":0,"seconds":0.0,"cost":0.0},"events":[{"type":"Started","conversation_id":"golden/2","definition":"6bb2a8b3716001fa9d14de3aaa25574b08e617d23b792f7e3a2be83cdc3b3633","state":"hello","time":1795299020.7636206},{"type":"ModelReplied","asked_for":"greeting","text":"{\"message\":\"Hello!\"}","model":"scripted","mode":"scripted","prompt":{"system":264,"schema":174,"current_state":24}},{"type":"BotSaid","text":"Hello!"}]}');
CREATE INDEX due_by_time ON due (time);
CREATE INDEX pinned ON conversations (definition_sha) WHERE definition_sha IS NOT NULL;
CREATE INDEX outbox_by_sink ON outbox (sink, conversation, number, place);
CREATE INDEX listed_by_ended ON conversations (ended, id);
CREATE INDEX listed_by_state ON conversations (state, ended, id);
CREATE INDEX listed_by_definition ON conversations (definition, ended, id);
CREATE INDEX listed_by_definition_and_state ON conversations (definition, state, ended, id);
CREATE INDEX labels_by_conversation ON labels (conversation);
CREATE INDEX conversations_by_time ON conversations (updated, id);
CREATE INDEX listed_by_pause ON conversations (id) WHERE paused <> '';
COMMIT;
