-- Answer a request, once: the first caller acknowledges the entry, records the event and gives the reply.
-- KEYS  1 stream of the entry  2 events  3 verdict:<id>  4 reply  5 join:<id>  6 call:<hash>  7 lineage:<id>
--       8 first:<id>  9 moved:<stream of the entry>  10 late
-- ARGV  1 group  2 entry  3 answer ('' for the verdict itself)  4 kept ms  5 call ms  6 '1' when reply may be written
--       7 '1' when the call has a name  8 which of these is the verdict
--       9 consumer whose answer counts only while it has the entry ('' for any)  10 how many fields the
--       event has  11 ms that the id of a spooled request is remembered ('0': it was not spooled)
--       12.. the event's fields, then the fields of a report if there is one
-- Returns 1 if this call answered, 0 if another call has answered or will.
-- A full server refuses a script whose first write needs memory. XACK needs none, so it is first, and the script may go on.
local entry = ARGV[2]
local function acknowledged()
  if ARGV[9] ~= '' then
    -- This evaluator was stopped while its hooks ran, and another one claimed the request and ran them again: that one
    -- answers.
    local pending = redis.call('XPENDING', KEYS[1], ARGV[1], entry, entry, 1)
    if #pending == 0 or pending[1][2] ~= ARGV[9] then return false end
  end
  return redis.call('XACK', KEYS[1], ARGV[1], entry) == 1
end
if not acknowledged() then
  entry = redis.call('HGET', KEYS[9], entry)  -- its id was made up, and the repair has given it another
  if not entry or not acknowledged() then return 0 end
end
redis.call('XDEL', KEYS[1], entry)

local function give(reply, answer)
  redis.call('RPUSH', reply, answer)
  redis.call('PEXPIRE', reply, ARGV[4])
end

local verdict = ARGV[tonumber(ARGV[8])]
local answer, last = ARGV[3] ~= '' and ARGV[3] or verdict, 11 + ARGV[10]

-- Add an event. If the stream takes none now, because its last id is made up (stream_repair.py), the event waits in `late`
-- and the answer is sent at once.
local function add(...)
  local added = redis.pcall('XADD', KEYS[2], '*', ...)
  if type(added) == 'string' then return added end
  redis.call('XADD', KEYS[10], '*', ...)
  return 'late'
end

-- Record the event. If its agent's spool has brought the event before, only the verdict is added, if that event has none.
local function write_down(...)
  local before = redis.call('GET', KEYS[8])
  if not before then
    local entry = add(...)
    if ARGV[11] ~= '0' then redis.call('SET', KEYS[8], entry, 'PX', ARGV[11]) end
  elseif ARGV[11] == '0' then
    local row, more = string.find(before, '^%d') and redis.call('XRANGE', KEYS[2], before, before)[1], {'dispatched', '1'}
    for i = 1, row and #row[2] or 0, 2 do
      if row[2][i] == 'fallback' then more = {'dispatched', '1', 'fallback', row[2][i + 1]} end
    end
    if row then redis.call('XDEL', KEYS[2], before) end
    for _, part in ipairs({...}) do more[#more + 1] = part end
    local entry = add(unpack(more))
    redis.call('SET', KEYS[8], entry, 'PX', math.max(1, redis.call('PTTL', KEYS[8])))
  end
end

local prior = not redis.call('SET', KEYS[3], KEYS[4], 'NX', 'PX', ARGV[4]) and redis.call('GET', KEYS[3])
if prior then
  answer = redis.call('LINDEX', prior, 0) or answer
  -- The event is recorded already; the report that the agent fell back (and spooled it) is new.
  local reported = ARGV[11] ~= '0' and not redis.call('SET', KEYS[8], 'answered', 'NX', 'PX', ARGV[11])
  if #ARGV > last and not reported then add(unpack(ARGV, last + 1)) end
else
  local said = ARGV[7] == '1' and redis.call('GET', KEYS[6])
  if said and not string.match(said, '^running ') then
    -- The same hook call again: it is recorded, and not delivered again.
    write_down('same', '1', unpack(ARGV, 12, last))
  else
    if ARGV[7] == '1' then redis.call('SET', KEYS[6], verdict, 'PX', ARGV[5]) end
    write_down(unpack(ARGV, 12, last))
  end
end
if ARGV[6] == '1' and prior ~= KEYS[4] then give(KEYS[4], answer) end

-- The request's hooks have ended (F-12): events that are published later were not caused by them.
local lineage = ARGV[9] ~= '' and redis.call('HGETALL', KEYS[7]) or {}
if #lineage > 0 then
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  for i = 1, #lineage, 2 do
    if lineage[i] ~= 'parent' and lineage[i + 1] == '1' then redis.call('HSET', KEYS[7], lineage[i], now) end
  end
end

local waiting = ARGV[9] ~= '' and redis.call('LRANGE', KEYS[5], 0, -1) or {}  -- other requests wait only for a claimed one
for _, reply in ipairs(waiting) do
  if reply ~= KEYS[4] then give(reply, answer) end
end
if #waiting > 0 then redis.call('DEL', KEYS[5]) end
return 1
