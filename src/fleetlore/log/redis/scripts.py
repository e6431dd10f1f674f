"""Lua scripts that run in the server; each is one atomic step.

Redis does not roll back a failed script, so every check comes before the first write, and what can still fail is undone.
Common keys, followed by the scopes' streams: the town's stream, `ids` (event id → entry), `forgotten` (hashes of erased
ids), `meta` (log id, horizon, keep, our last entry, whether anything was erased), `removed` (stream → how many entries
we removed ourselves) and `blobs` (event id → its whole texts).
"""

from __future__ import annotations

_COMPARE_FUNCTIONS = """
local function parts(entry) return string.match(entry, '^(%d+)-(%d+)$') end

-- Compares text: Lua numbers are exact only to 2^53.
local function below(a, b)
  local ams, aseq = parts(a)
  local bms, bseq = parts(b)
  if ams ~= bms then return #ams < #bms or (#ams == #bms and ams < bms) end
  return #aseq < #bseq or (#aseq == #bseq and aseq < bseq)
end
"""

_ID_FUNCTION = """
local function id_of(fields)
  for i = 1, #fields, 2 do
    if fields[i] == 'data' then return string.match(fields[i + 1], '^{"fleetlore":{"id":"([%x-]+)"') end
  end
end
"""

# ARGV: log id to use if there is none · the log id and the last entry that the handle knows, or '' · length limits of the
# streams, or '' · key number of the expected scope, or 0 · its expected newest entry, or '' · number of events, and for
# each: id, type, data, its key numbers as two bytes each · for each event with whole texts: its number, the texts.
_APPEND_FUNCTIONS = f"""
{_COMPARE_FUNCTIONS}
{_ID_FUNCTION}
local TOWN, IDS, FORGOTTEN, META, REMOVED, BLOBS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local OWN_KEYS, FIRST_EVENT, HIGHEST = 6, 8, 9007199254740000
local function event(i) return FIRST_EVENT + 5 * (i - 1) end
local end_of_events = event(tonumber(ARGV[7]) + 1)
local meta = redis.call('HMGET', META, 'log_id', 'horizon', 'keep', 'last', 'erased')

-- Whether this is the log that the handle knows, and no older copy of it. Its stream stays, even if it is empty.
local function is_known_log()
  if ARGV[2] == '' then return true end
  if meta[1] ~= ARGV[2] then return false end
  if not meta[4] then return ARGV[3] == '' end
  return not below(meta[4], ARGV[3] ~= '' and ARGV[3] or '0-0') and redis.call('EXISTS', TOWN) == 1
end

local function head(key)
  local last = redis.call('XREVRANGE', key, '+', '-', 'COUNT', 1)[1]
  if not last or (meta[2] and not below(meta[2], last[1])) then return '' end
  return last[1]
end

-- Returns the new events, or nil and the answer if nothing is to be written.
local function plan()
  if not is_known_log() then return nil, {{'lost', meta[1] or '', meta[4] or ''}} end
  local ids, fresh, forgotten, seen = {{}}, {{}}, {{}}, {{}}
  for i = 1, tonumber(ARGV[7]) do ids[i] = ARGV[event(i)] end
  local known = redis.call('HMGET', IDS, unpack(ids))
  for i, id in ipairs(ids) do
    if not known[i] and not seen[id] then
      seen[id] = true
      fresh[#fresh + 1] = i
    end
  end
  if #fresh == 0 then return nil, {{'ok', unpack(known)}} end
  if meta[5] then
    for _, i in ipairs(fresh) do
      if redis.call('SISMEMBER', FORGOTTEN, redis.sha1hex(ids[i])) == 1 then forgotten[#forgotten + 1] = ids[i] end
    end
    if #forgotten > 0 then return nil, {{'forgotten', unpack(forgotten)}} end
  end
  local expected = tonumber(ARGV[5])
  if expected > 0 then
    local actual = head(KEYS[expected])
    if actual ~= ARGV[6] then return nil, {{'conflict', actual}} end
  end
  return {{ids = ids, known = known, fresh = fresh}}
end

-- The lowest entry id above `entry`, and not below (ms, seq).
local function above(entry, ms, seq)
  local lms, lseq = parts(entry)
  lms, lseq = tonumber(lms), tonumber(lseq)
  if lms > ms or (lms == ms and lseq >= seq) then ms, seq = lms, lseq + 1 end
  if seq > HIGHEST then ms, seq = ms + 1, 0 end
  return ms, seq
end

local function first_id()
  local time = redis.call('TIME')
  local ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  return above(meta[4] or '0-0', ms, 0)
end

-- Above every entry that was ever in any of the streams, including those of other writers.
local function first_id_beside_others()
  local ms, seq = first_id()
  for i, key in ipairs(KEYS) do
    if i == 1 or i > OWN_KEYS then
      local stream = redis.pcall('XINFO', 'STREAM', key)
      for j = 1, stream.err and 0 or #stream, 2 do
        if stream[j] == 'last-generated-id' then ms, seq = above(stream[j + 1], ms, seq) end
      end
    end
  end
  return ms, seq
end

local caps = {{}}
for cap in string.gmatch(ARGV[4], '%d+') do caps[#caps + 1] = cap end

local function add(number, entry, at)
  return redis.pcall('XADD', KEYS[number], entry, 'event_type', ARGV[at + 1], 'data', ARGV[at + 2], 'checksum', ARGV[at + 3])
end

-- Delete the entries written so far, from the first id up to (not including) one key of `until_event`.
local function undo(todo, ms, seq, until_event, until_key)
  for _, i in ipairs(todo.fresh) do
    local entry, numbers = string.format('%.0f-%.0f', ms, seq), ARGV[event(i) + 4]
    for j = 1, #numbers, 2 do
      if i == until_event and j == until_key then return end
      local high, low = string.byte(numbers, j, j + 1)
      local key = KEYS[high * 256 + low]
      redis.call('HINCRBY', REMOVED, key, redis.call('XDEL', key, entry))
    end
    seq = seq + 1
  end
end

-- Write all entries, or none and return the error. Atomic: other clients never see a partial state.
local function try(todo, ms, first)
  local pairs_of_ids, last, seq = {{}}, nil, first
  for _, i in ipairs(todo.fresh) do
    local at = event(i)
    local numbers = ARGV[at + 4]
    last = string.format('%.0f-%.0f', ms, seq)
    for j = 1, #numbers, 2 do
      local high, low = string.byte(numbers, j, j + 1)
      local answer = add(high * 256 + low, last, at)
      if type(answer) == 'table' and answer.err then
        undo(todo, ms, first, i, j)
        return nil, {{err = answer.err .. ' (key ' .. KEYS[high * 256 + low] .. ')'}}
      end
    end
    pairs_of_ids[#pairs_of_ids + 1] = ARGV[at]
    pairs_of_ids[#pairs_of_ids + 1] = last
    todo.known[i] = last
    seq = seq + 1
  end
  redis.call('HSET', IDS, unpack(pairs_of_ids))
  if meta[1] then
    redis.call('HSET', META, 'last', last)
  else
    redis.call('HSET', META, 'last', last, 'log_id', ARGV[1])
  end
  return last
end

-- At most a thousand per call, so that turning the caps on for a long stream does not block the server.
local function cut()
  if not meta[3] then redis.call('HSET', META, 'keep', 'tinytown') end
  for i = 2, #caps do redis.call('XTRIM', KEYS[OWN_KEYS + i - 1], 'MAXLEN', '~', caps[i]) end
  local length = redis.call('XLEN', TOWN)
  local extra = math.min(length - tonumber(caps[1]), 1000)
  if extra < 100 then return end
  for _, entry in ipairs(redis.call('XRANGE', TOWN, '-', '+', 'COUNT', extra)) do
    local id = id_of(entry[2])
    if id then
      redis.call('HDEL', IDS, id)
      redis.call('HDEL', BLOBS, id)
    end
  end
  redis.call('XTRIM', TOWN, 'MAXLEN', '=', length - extra)
end

local function write(todo)
  local done, problem = try(todo, first_id())
  if not done then done, problem = try(todo, first_id_beside_others()) end
  if not done then return problem end
  if caps[1] then cut() end
  local entries, answer = {{}}, {{'ok'}}
  for i, id in ipairs(todo.ids) do
    entries[id] = todo.known[i] or entries[id]
    answer[i + 1] = entries[id]
  end
  return answer
end
"""

APPEND = f"""#!lua
{_APPEND_FUNCTIONS}
local todo, answer = plan()
if not todo then return answer end
local result = write(todo)
if ARGV[end_of_events] and not result.err then
  local is_fresh = {{}}
  for _, i in ipairs(todo.fresh) do is_fresh[i] = true end
  for at = end_of_events, #ARGV, 2 do
    local i = tonumber(ARGV[at])
    if is_fresh[i] then redis.call('HSET', BLOBS, ARGV[event(i)], ARGV[at + 1]) end
  end
end
return result
"""

# ARGV as for APPEND with one event (the `log.forgotten`), then for each id to erase: the id · its entry, or '' · number
# of copies, and for each: its key number, its entry.
ERASE = f"""#!lua
{_APPEND_FUNCTIONS}
local erased, at, copies = {{}}, end_of_events, {{}}
while ARGV[at] do
  local id, entry, count = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  if (redis.call('HGET', IDS, id) or '') ~= entry then return {{'again'}} end
  for i = 1, count do copies[#copies + 1] = {{KEYS[tonumber(ARGV[at + 1 + 2 * i])], ARGV[at + 2 + 2 * i]}} end
  erased[#erased + 1] = id
  at = at + 3 + 2 * count
end
local todo, answer = plan()
if not todo then return answer end
for _, copy in ipairs(copies) do
  local gone = redis.call('XDEL', copy[1], copy[2])
  if gone > 0 then redis.call('HINCRBY', REMOVED, copy[1], gone) end
end
for _, id in ipairs(erased) do
  redis.call('HDEL', IDS, id)
  redis.call('HDEL', BLOBS, id)
  redis.call('SADD', FORGOTTEN, redis.sha1hex(id))
end
redis.call('HSET', META, 'erased', 1)
return write(todo)
"""

# Everything at or below the horizon is hidden from readers, so the actual trimming can take its time. ARGV: the horizon,
# the last of the town's entries that it removes.
RAISE_HORIZON = f"""#!lua flags=allow-oom
{_COMPARE_FUNCTIONS}
for i, name in ipairs({{'horizon', 'cut'}}) do
  local old = redis.call('HGET', KEYS[1], name)
  if not old or below(old, ARGV[i]) then redis.call('HSET', KEYS[1], name, ARGV[i]) end
end
return 1
"""

# KEYS: town, ids, removed, blobs. ARGV: the horizon, the maximum number of entries.
CUT_TOWN = f"""#!lua flags=allow-oom
{_ID_FUNCTION}
local old = redis.call('XRANGE', KEYS[1], '-', ARGV[1], 'COUNT', ARGV[2])
if #old == 0 then return 0 end
for _, entry in ipairs(old) do
  local id = id_of(entry[2])
  if id then
    redis.call('HDEL', KEYS[2], id)
    redis.call('HDEL', KEYS[4], id)
  end
end
redis.call('XTRIM', KEYS[1], 'MAXLEN', '=', redis.call('XLEN', KEYS[1]) - #old)
redis.call('HINCRBY', KEYS[3], KEYS[1], #old)
return #old
"""

# KEYS: removed, then streams. ARGV: the horizon. Empty streams are deleted.
CUT_SCOPES = """#!lua flags=allow-oom
for i = 2, #KEYS do
  local gone = redis.call('XTRIM', KEYS[i], 'MINID', '=', ARGV[1]) + redis.call('XDEL', KEYS[i], ARGV[1])
  if redis.call('XLEN', KEYS[i]) == 0 then
    redis.call('DEL', KEYS[i])
    redis.call('HDEL', KEYS[1], KEYS[i])
  elseif gone > 0 then
    redis.call('HINCRBY', KEYS[1], KEYS[i], gone)
  end
end
return 1
"""

# KEYS: ids, blobs. ARGV: pairs of id and entry; an id is deleted only if it still has this entry.
DROP_IDS = """#!lua flags=allow-oom
for i = 1, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then
    redis.call('HDEL', KEYS[1], ARGV[i])
    redis.call('HDEL', KEYS[2], ARGV[i])
  end
end
return 1
"""

# KEYS: ids, blobs. ARGV: ids; the whole texts of those that are gone are deleted.
DROP_BLOBS = """#!lua flags=allow-oom
for i = 1, #ARGV do
  if redis.call('HEXISTS', KEYS[1], ARGV[i]) == 0 then redis.call('HDEL', KEYS[2], ARGV[i]) end
end
return 1
"""

# KEYS: a stream, meta, removed. ARGV: start, maximum number of entries. Returns a `_StreamSnapshot` (tail.py).
READ_STREAM = """#!lua flags=no-writes
local entries = redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[2])
local meta = redis.call('HMGET', KEYS[2], 'horizon', 'cut', 'erased', 'log_id', 'last')
local removed = redis.call('HGET', KEYS[3], KEYS[1])
local facts = {['entries-added'] = 0, length = 0, ['last-generated-id'] = ''}
local stream = redis.pcall('XINFO', 'STREAM', KEYS[1])
for i = 1, stream.err and 0 or #stream, 2 do facts[stream[i]] = stream[i + 1] end
local first = facts['first-entry']
return {entries, facts['entries-added'], facts.length, first and first[1] or '', facts['last-generated-id'],
  meta[1] or '', meta[2] or '', meta[3] or '', removed or '0', meta[4] or '', meta[5] or ''}
"""
