"""The Lua scripts of the Redis store. The server runs each script as a whole.

Keys, under a prefix that a cluster keeps in one slot:

| key | holds |
|---|---|
| `c:<id>` | the conversation: session, version, fields for listings, due rows |
| `r:<id>`, `i:<id>` | records in order; request id to record number |
| `j:<id>`, `o:<id>` | journal, step to result; outbox, rows in order |
| `all`, `out`, `due` | ids in order; those with an outbox; due rows by time |
| `waiting` | ids in order of those that wait for an answer |
| `a:<id>`, `ap:<id>`, `as:<id>` | accepted messages by request id: the message, its place, its state |
| `accepted`, `place` | accepted messages to answer, by time; the last place |
| `journals` | ids in order of those with a journal |
| `m:<label>` | the conversations with a label |
| `defs`, `p:<sha>` | definitions; the conversations pinned to one |
| `l:<id>`, `h:<holder>` | the holder of a lock; the lease of a holder |
"""

from __future__ import annotations

_HELD = """
local function held(id, holder)
  return holder == '' or redis.call('GET', P .. 'l:' .. id) == holder
end
"""

_PIN = """
local function unpin(id, sha)
  if sha then
    redis.call('SREM', P .. 'p:' .. sha, id)
    if redis.call('EXISTS', P .. 'p:' .. sha) == 0 then redis.call('HDEL', P .. 'defs', sha) end
  end
end
local function label(id, command)
  for _, one in ipairs(cjson.decode(redis.call('HGET', P .. 'c:' .. id, 'labels') or '[]')) do
    redis.call(command, P .. 'm:' .. one, id)
  end
end
local function undue(id)
  for _, row in ipairs(cjson.decode(redis.call('HGET', P .. 'c:' .. id, 'due') or '[]')) do
    redis.call('ZREM', P .. 'due', row[1])
  end
end
"""

SAVE = (
    "local P, id, holder, expected, number, sha = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]\n"
    "local text, due, outbox, fields, answered = ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11]\n"
    "local paused = ARGV[12]"
    + _HELD
    + _PIN
    + """
local c = P .. 'c:' .. id
local version = tonumber(redis.call('HGET', c, 'version') or '0')
expected, number, answered = tonumber(expected), tonumber(number), cjson.decode(answered)
if version ~= expected then
  local same = redis.call('LINDEX', P .. 'r:' .. id, number - 1) == ARGV[#ARGV]
  return {'version', version, same and 1 or 0}
end
if not held(id, holder) then return {'lost'} end
for _, one in ipairs(answered) do
  if redis.call('HEXISTS', P .. 'i:' .. id, one[1]) == 1 then return {'answered'} end
end
if sha ~= '' and text == '' and redis.call('HEXISTS', P .. 'defs', sha) == 0 then return {'undefined'} end
if expected > 0 then undue(id) end
local before = redis.call('HGET', c, 'sha')
for place = 15, #ARGV do redis.call('RPUSH', P .. 'r:' .. id, ARGV[place]) end
for _, one in ipairs(answered) do redis.call('HSET', P .. 'i:' .. id, one[1], one[2]) end
redis.call('HSET', c, 'version', number, 'due', due, 'paused', paused, unpack(cjson.decode(fields)))
if paused ~= '' then
  redis.call('ZADD', P .. 'waiting', 0, id)
else
  redis.call('ZREM', P .. 'waiting', id)
end
if expected == 0 then
  redis.call('HSET', c, 'created', ARGV[13])
  redis.call('ZADD', P .. 'all', 0, id)
  label(id, 'SADD')
end
redis.call('HSET', c, 'session', ARGV[14])
if sha ~= '' then
  redis.call('HSET', c, 'sha', sha)
  redis.call('SADD', P .. 'p:' .. sha, id)
  if text ~= '' then redis.call('HSETNX', P .. 'defs', sha, text) end
else
  redis.call('HDEL', c, 'sha')
end
if before and before ~= sha then unpin(id, before) end
for _, row in ipairs(cjson.decode(due)) do redis.call('ZADD', P .. 'due', row[2], row[1]) end
for _, row in ipairs(cjson.decode(outbox)) do
  redis.call('RPUSH', P .. 'o:' .. id, row)
  redis.call('ZADD', P .. 'out', 0, id)
end
redis.call('DEL', P .. 'j:' .. id)
redis.call('ZREM', P .. 'journals', id)
return {'ok'}
"""
)
"""A commit. `answered` holds pairs of a request id and the number of its record, written as text.

After the named arguments come `created`, the session and each record.
"""

JOURNAL = (
    "local P, id, holder, step, text = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]"
    + _HELD
    + """
if not held(id, holder) then return {'lost'} end
if redis.call('HSETNX', P .. 'j:' .. id, step, text) == 1 then
  redis.call('ZADD', P .. 'journals', 0, id)
  return {'ok'}
end
return {'exists', redis.call('HGET', P .. 'j:' .. id, step)}
"""
)

FORGET = (
    "local P, id, holder = ARGV[1], ARGV[2], ARGV[3]"
    + _HELD
    + """
if not held(id, holder) then return 'lost' end
redis.call('DEL', P .. 'j:' .. id)
redis.call('ZREM', P .. 'journals', id)
return 'ok'
"""
)

JOURNALS = """
local P, found = ARGV[1], {}
for place = 2, #ARGV do
  local id = ARGV[place]
  local holder = redis.call('GET', P .. 'l:' .. id)
  local first = redis.call('HGET', P .. 'j:' .. id, '0')
  if first and not (holder and redis.call('EXISTS', P .. 'h:' .. holder) == 1) then
    local last = 0
    for _, step in ipairs(redis.call('HKEYS', P .. 'j:' .. id)) do last = math.max(last, tonumber(step)) end
    local text = redis.call('HGET', P .. 'j:' .. id, string.format('%.0f', last))
    found[#found + 1] = {id, first, text}
  end
end
return found
"""
"""First and last entry of these journals, without those whose lock is held."""

LOAD = """
local P, id, request = ARGV[1], ARGV[2], ARGV[3]
local found = redis.call('HMGET', P .. 'c:' .. id, 'session', 'version', 'sha')
local number = request ~= '' and redis.call('HGET', P .. 'i:' .. id, request)
local record = number and redis.call('LINDEX', P .. 'r:' .. id, tonumber(number) - 1)
return {found[1], found[2], found[3], record, redis.call('HEXISTS', P .. 'j:' .. id, '0')}
"""

_MESSAGE = """
local function name_of(id, request)
  return #id .. ':' .. id .. request
end
local function found(id, request)
  local text = redis.call('HGET', P .. 'a:' .. id, request)
  if not text then return nil end
  local place = redis.call('HGET', P .. 'ap:' .. id, request)
  return {text, place, redis.call('HGET', P .. 'as:' .. id, request)}
end
"""

ACCEPT = (
    "local P, id, request, due, text = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]"
    + _MESSAGE
    + """
if redis.call('HSETNX', P .. 'a:' .. id, request, text) == 1 then
  redis.call('HSET', P .. 'ap:' .. id, request, redis.call('INCR', P .. 'place'))
  redis.call('HSET', P .. 'as:' .. id, request, 'waiting')
  redis.call('ZADD', P .. 'accepted', due, name_of(id, request))
  redis.pcall('PUBLISH', P .. 'wake', '')
end
return found(id, request)
"""
)

ACCEPTED = (
    "local P, rows = ARGV[1], {}"
    + _MESSAGE
    + """
for place = 2, #ARGV, 2 do
  rows[#rows + 1] = found(ARGV[place], ARGV[place + 1])
end
return rows
"""
)
"""Accepted messages, by pairs of an id and a request id."""

MARK_ACCEPTED = (
    "local P, id, request, state = ARGV[1], ARGV[2], ARGV[3], ARGV[4]"
    + _MESSAGE
    + """
local now = redis.call('HGET', P .. 'as:' .. id, request)
for place = 5, #ARGV do
  if now == ARGV[place] then
    redis.call('HSET', P .. 'as:' .. id, request, state)
    if state ~= 'waiting' and state ~= 'begun' then
      redis.call('ZREM', P .. 'accepted', name_of(id, request))
    end
    return state
  end
end
return now
"""
)

DROP_ACCEPTED = (
    "local P, id, request = ARGV[1], ARGV[2], ARGV[3]"
    + _MESSAGE
    + """
redis.call('ZREM', P .. 'accepted', name_of(id, request))
for _, kind in ipairs({'a:', 'ap:', 'as:'}) do redis.call('HDEL', P .. kind .. id, request) end
return 1
"""
)

LOCK = """
local P, id, holder, lease = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
redis.call('SET', P .. 'h:' .. holder, 1, 'PX', lease)
local now = redis.call('GET', P .. 'l:' .. id)
local own = now and string.sub(now, 1, 32) == string.sub(holder, 1, 32)
if now and not own and redis.call('EXISTS', P .. 'h:' .. now) == 1 then return 0 end
redis.call('SET', P .. 'l:' .. id, holder)
return 1
"""

UNLOCK = """
local P, id, holder = ARGV[1], ARGV[2], ARGV[3]
if redis.call('GET', P .. 'l:' .. id) == holder then redis.call('DEL', P .. 'l:' .. id) end
return 1
"""

ACKNOWLEDGE = """
local P, id, sink, number, index = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
number, index = tonumber(number), tonumber(index)
local key = P .. 'o:' .. id
local left = {}
for _, row in ipairs(redis.call('LRANGE', key, 0, -1)) do
  local of = cjson.decode(row)
  if of[3] ~= sink or of[1] > number or (of[1] == number and of[2] > index) then left[#left + 1] = row end
end
redis.call('DEL', key)
for _, row in ipairs(left) do redis.call('RPUSH', key, row) end
if #left == 0 then redis.call('ZREM', P .. 'out', id) end
return 1
"""

DELETE = (
    "local P, id = ARGV[1], ARGV[2]"
    + _PIN
    + """
local found = redis.call('EXISTS', P .. 'c:' .. id)
for _, request in ipairs(redis.call('HKEYS', P .. 'a:' .. id)) do
  redis.call('ZREM', P .. 'accepted', #id .. ':' .. id .. request)
end
undue(id)
label(id, 'SREM')
unpin(id, redis.call('HGET', P .. 'c:' .. id, 'sha'))
for _, kind in ipairs({'c:', 'r:', 'i:', 'j:', 'o:', 'a:', 'ap:', 'as:'}) do
  redis.call('DEL', P .. kind .. id)
end
redis.call('ZREM', P .. 'all', id)
redis.call('ZREM', P .. 'out', id)
redis.call('ZREM', P .. 'waiting', id)
redis.call('ZREM', P .. 'journals', id)
return found
"""
)

TRY = """
local key = ARGV[1] .. 'try:'
local fault
local function try(...)
  local said = redis.pcall(...)
  if not fault and type(said) == 'table' and said.err then fault = said end
end
for _, kind in ipairs({'text', 'hash', 'list', 'set', 'sorted'}) do try('DEL', key .. kind) end
if fault then return fault end
try('SET', key .. 'text', 1, 'PX', 1)
try('GET', key .. 'text')
try('EXISTS', key .. 'text')
try('HSET', key .. 'hash', 'a', 1)
try('HSETNX', key .. 'hash', 'b', 1)
try('HGET', key .. 'hash', 'a')
try('HMGET', key .. 'hash', 'a')
try('HEXISTS', key .. 'hash', 'a')
try('HKEYS', key .. 'hash')
try('HDEL', key .. 'hash', 'a')
try('RPUSH', key .. 'list', 1)
try('LINDEX', key .. 'list', 0)
try('LRANGE', key .. 'list', 0, -1)
try('SADD', key .. 'set', 1)
try('SREM', key .. 'set', 1)
try('ZADD', key .. 'sorted', 0, 1)
try('ZREM', key .. 'sorted', 1)
try('INCR', key .. 'count')
try('DEL', key .. 'count')
for _, kind in ipairs({'text', 'hash', 'list', 'set', 'sorted'}) do redis.call('DEL', key .. kind) end
return fault or 1
"""
"""Every command of the other scripts, on keys of no conversation.

The server undoes nothing of a script if it forbids a command in the middle. So a missing permission
is found before a turn is half written.
"""
