-- Look up what a session did, with the session that it counts for (workers/memory/recall.py).
-- KEYS  1 facts:<session>
-- ARGV  1 prefix of all keys  2 session  3 hash of the call at hand ('' for none)  4 '1' if its deeds are wanted
--       5 ms of a pause between two calls that are no loop
-- Returns its deeds and its secrets, each with times, the last one first; how often in a row the call has come to the same
-- outcome; and its tokens.
local prefix = ARGV[1]
local session = redis.call('GET', prefix .. 'family:' .. ARGV[2]) or ARGV[2]
local deeds, repeats = {}, 0
if ARGV[4] == '1' then deeds = redis.call('ZREVRANGE', prefix .. 'facts:' .. session, 0, -1, 'WITHSCORES') end
local secrets = redis.call('ZREVRANGE', prefix .. 'facts:' .. session .. ':secrets', 0, 0, 'WITHSCORES')
if ARGV[3] ~= '' then
  local state = redis.call('HMGET', prefix .. 'repeats:' .. session, ARGV[3], 'waited', 'prompt')
  local count, last = string.match(state[1] or '', '^(%d+) %S+ (%d+) ')
  if count then
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local since = math.max(tonumber(state[2] or '0'), tonumber(state[3] or '0'), now - tonumber(ARGV[5]))
    if tonumber(last) > since then repeats = tonumber(count) end
  end
end
local tokens = redis.call('HGET', prefix .. 'spent:session:' .. session, 'tokens:all')
return {deeds, secrets, repeats, tokens or '0'}
