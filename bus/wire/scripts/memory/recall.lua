-- Look up what a session did, with the session that it counts for, and what is not on record yet (workers/memory/recall.py).
-- KEYS  1 facts:<session>  2 events  3 requests  4 waiting  5 alive:dispatcher
-- ARGV  1 prefix of all keys  2 session  3 hash of the call at hand ('' for none)  4 '1' if its deeds are wanted
--       5 ms of a pause between two calls that are no loop  6 id of the event at hand  7 its time  8 the group that keeps the
--       record  9 the most entries that are read of a stream
-- Returns its deeds and its secrets, each with times, the last one first; how often in a row the call has come to the same
-- outcome; its tokens; `empty` if no event has ever been added, `not kept` if no group keeps the record, else `kept`; and the
-- entries that are not on record yet: requests up to the event's time, deferred ones, and events; and 1 if a dispatcher runs.
local prefix, most = ARGV[1], ARGV[9]
-- with family
-- with record
local session = root_of(ARGV[2])

local record, last, failed = record_of(KEYS[2], ARGV[8])
if failed then return failed end

local function asked(stream)
  local found, rows = {}, redis.pcall('XRANGE', stream, '-', ARGV[7], 'COUNT', most)
  for _, row in ipairs(rows) do  -- of an error reply there are none
    local fields, own = row[2] or {}, false
    for i = 1, #fields, 2 do own = own or (fields[i] == 'id' and fields[i + 1] == ARGV[6]) end
    if not own then found[#found + 1] = row end
  end
  return found
end

local requests, waiting, unread = {}, {}, {}
if last then
  requests, waiting = asked(KEYS[3]), asked(KEYS[4])
  unread = redis.call('XRANGE', KEYS[2], '(' .. last, '+', 'COUNT', most)
  for _, row in ipairs(redis.call('XPENDING', KEYS[2], ARGV[8], '-', '+', most)) do
    for _, entry in ipairs(redis.call('XRANGE', KEYS[2], row[1], row[1])) do unread[#unread + 1] = entry end
  end
end

local deeds, repeats = {}, 0
if ARGV[4] == '1' then deeds = redis.call('ZREVRANGE', prefix .. 'facts:' .. session, 0, -1, 'WITHSCORES') end
local secrets = redis.call('ZREVRANGE', prefix .. 'facts:' .. session .. ':secrets', 0, 0, 'WITHSCORES')
if ARGV[3] ~= '' then
  local state = redis.call('HMGET', prefix .. 'repeats:' .. session, ARGV[3], 'waited', 'prompt')
  local count, at = string.match(state[1] or '', '^(%d+) %S+ (%d+) ')
  if count then
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local since = math.max(tonumber(state[2] or '0'), tonumber(state[3] or '0'), now - tonumber(ARGV[5]))
    if tonumber(at) > since then repeats = tonumber(count) end
  end
end
local tokens = redis.call('HGET', prefix .. 'spent:session:' .. session, 'tokens:all')
return {deeds, secrets, repeats, tokens or '0', record, requests, waiting, unread, redis.call('EXISTS', KEYS[5])}
