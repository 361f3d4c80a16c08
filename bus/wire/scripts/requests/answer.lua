-- Answer a request, once: the first caller acknowledges the entry, records the event and gives the reply.
-- KEYS  1 stream of the entry  2 events  3 verdict:<id>  4 reply  5 call:<hash>  6 first:<id>
--       7 moved:<stream of the entry>  8 ticket:<hash> (only if there is a ticket)
-- ARGV  1 group  2 entry  3 answer ('' for the verdict itself)  4 kept ms  5 call ms  6 '1' when reply may be written
--       7 '1' when the call has a name  8 which of these is the verdict
--       9 consumer whose answer counts only while it has the entry ('' for any)  10 how many fields the
--       event has  11 ms that the id of a spooled request is remembered ('0': it was not spooled)
--       12 what the ticket has to be ('' for none)  13 prefix of all keys  14 how many of these are what to count
--       15 '1' when this answer ends the question that waits under the id  16 how many of these are about limits
--       17.. what to count: in turn a field of `metrics`, or of `stats` with a colon before it, and a number; then the limits
--       that the call counts for (shared/limits.lua); then the event's fields, which begin with `id`; then the fields of a
--       report if there is one
-- If a person was asked about a call with this id, and its caller has no answer yet, this call joins it: it gets the same
-- answer and records nothing. Only here, in one step with the answer, is it known that no other evaluator has asked.
-- Returns 1 if this call answered, 0 if another call has answered or will, or if the ticket is used up: then the entry stays
-- pending, and is evaluated again. If a limit is reached that refuses the call, nothing is answered and counted, the entry stays
-- pending, and the result is a list: of each limit '1' if it is reached, its count, and the ms when the next call fits; or
-- `failed` and why, if the limits cannot be looked up.
local stream, moved, group, entry, consumer = KEYS[1], KEYS[7], ARGV[1], ARGV[2], ARGV[9]
local spends = ARGV[12] ~= '' and redis.call('EXISTS', KEYS[3]) == 0
if spends and redis.call('GET', KEYS[8]) ~= ARGV[12] then return 0 end
local prefix, place, first = ARGV[13], tonumber(ARGV[8]), 17 + ARGV[14]
local from = first + ARGV[16]
local last, id = from - 1 + ARGV[10], ARGV[from + 1]

local question = prefix .. 'question:' .. id
local function is_asked()
  local state = redis.call('HGET', question, 'state')
  if not state or stream == prefix .. 'decided' or redis.call('EXISTS', KEYS[3]) == 1 then return false end
  local replied = redis.call('HGET', question, 'replied')
  if not replied then return state ~= 'waiting' or ARGV[15] ~= '1' end
  return redis.call('TIME')[1] * 1000 - replied < tonumber(ARGV[4])  -- then its answer is not kept any more
end
local joins = is_asked()
local known = ARGV[7] == '1' and redis.call('GET', KEYS[5])
local same = known and not string.match(known, '^running ')

local limits, now = {}, 0
-- with family
-- with limits
if from > first and not joins and redis.call('EXISTS', KEYS[3]) == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
  local refused = false
  for at = first, from - 1, LIMIT_ARGS do
    local ok, l = pcall(limit_at, at, now)
    -- Access rights that are older than a key do not allow it: the failure policy of the rule decides.
    if not ok then return {'failed', type(l) == 'table' and (l.err or '') or tostring(l)} end
    limits[#limits + 1] = l
    refused = refused or (limits[#limits].over and limits[#limits].refuses)
  end
  if refused then
    local found = {}
    for _, l in ipairs(limits) do
      found[#found + 1] = l.over and '1' or '0'
      found[#found + 1] = tostring(l.count)
      found[#found + 1] = string.format('%d', l.over and free_at(l) or 0)
    end
    return found
  end
end
-- with acknowledged

local answer = ARGV[3]
if spends and not joins then redis.call('DEL', KEYS[8]) end

local function give(reply, answer)
  redis.call('RPUSH', reply, answer)
  redis.call('PEXPIRE', reply, ARGV[4])
end

-- Add an event. If the stream takes none now, because its last id is made up (stream_repair.py), the event waits in `late`
-- and the answer is sent at once.
local function add(...)
  local added = redis.pcall('XADD', KEYS[2], '*', ...)
  if type(added) == 'string' then return added end
  redis.call('XADD', prefix .. 'late', '*', ...)
  return 'late'
end

-- Record the event. If its agent's spool has brought the event before, only the verdict is added, if that event has none.
local function write_down(...)
  local before = redis.call('GET', KEYS[6])
  if not before then
    local entry = add(...)
    if ARGV[11] ~= '0' then redis.call('SET', KEYS[6], entry, 'PX', ARGV[11]) end
  elseif ARGV[11] == '0' then
    local row, more = string.find(before, '^%d') and redis.call('XRANGE', KEYS[2], before, before)[1], {'dispatched', '1'}
    for i = 1, row and #row[2] or 0, 2 do
      if row[2][i] == 'fallback' then more = {'dispatched', '1', 'fallback', row[2][i + 1]} end
    end
    if row then redis.call('XDEL', KEYS[2], before) end
    for _, part in ipairs({...}) do more[#more + 1] = part end
    local entry = add(unpack(more))
    redis.call('SET', KEYS[6], entry, 'PX', math.max(1, redis.call('PTTL', KEYS[6])))
  end
end

-- Let the caller wait for the question's answer, as long as the call that asked.
local function join()
  local asker = redis.call('HGET', question, 'reply')
  if asker == KEYS[4] then return end
  local left = math.max(redis.call('PTTL', asker .. ':wait'), 1)
  redis.call('RPUSH', prefix .. 'join:' .. id, KEYS[4])
  redis.call('PEXPIRE', prefix .. 'join:' .. id, math.max(left, tonumber(ARGV[4])))
  redis.call('DEL', KEYS[4] .. ':wait')
  redis.call('RPUSH', KEYS[4] .. ':wait', redis.call('HGET', question, 'provisional') or '1')
  redis.call('PEXPIRE', KEYS[4] .. ':wait', left)
end

if answer == '' then answer = ARGV[place] end
local prior = not joins and not redis.call('SET', KEYS[3], KEYS[4], 'NX', 'PX', ARGV[4]) and redis.call('GET', KEYS[3])
if joins and ARGV[6] == '1' then join() end
if joins or prior then
  answer = prior and redis.call('LINDEX', prior, 0) or answer
  -- The event is recorded already; the report that the agent fell back (and spooled it) is new.
  local reported = ARGV[11] ~= '0' and not redis.call('SET', KEYS[6], 'answered', 'NX', 'PX', ARGV[11])
  if #ARGV > last and not reported then add(unpack(ARGV, last + 1)) end
else
  for _, l in ipairs(limits) do
    local count = struct.pack('>I8', charge(l, now))
    if l.place > 0 then ARGV[place] = string.sub(ARGV[place], 1, l.place - 1) .. count .. string.sub(ARGV[place], l.place + 8) end
  end
  if ARGV[3] == '' then answer = ARGV[place] end
  if same then
    -- The same hook call again: it is recorded, and not delivered again.
    write_down('same', '1', unpack(ARGV, from, last))
  else
    if ARGV[7] == '1' then redis.call('SET', KEYS[5], ARGV[place], 'PX', ARGV[5]) end
    write_down(unpack(ARGV, from, last))
  end
end
if ARGV[6] == '1' and prior ~= KEYS[4] and not joins then give(KEYS[4], answer) end

if ARGV[9] ~= '' then  -- its hooks had effects, so it was claimed
  -- The request's hooks have ended (F-12): events that are published later were not caused by them.
  local lineage = redis.call('HGETALL', prefix .. 'lineage:' .. id)
  if #lineage > 0 then
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    for i = 1, #lineage, 2 do
      if lineage[i] ~= 'parent' and lineage[i + 1] == '1' then
        redis.call('HSET', prefix .. 'lineage:' .. id, lineage[i], now)
      end
    end
  end
  local joined = prefix .. 'join:' .. id  -- other requests wait only for a claimed one
  local waiting = joins and {} or redis.call('LRANGE', joined, 0, -1)
  for _, reply in ipairs(waiting) do
    if reply ~= KEYS[4] then give(reply, answer) end
  end
  if #waiting > 0 then redis.call('DEL', joined) end
end
if not prior and not joins then
  for i = 17, first - 1, 2 do
    local field, key = ARGV[i], 'metrics'
    if string.byte(field) == 58 then field, key = string.sub(field, 2), 'stats' end
    -- Access rights that are older than a key do not allow it; that is no reason to fail.
    local done = redis.pcall('HINCRBY', prefix .. key, field, ARGV[i + 1])
    if type(done) == 'table' then break end
  end
end
return 1
