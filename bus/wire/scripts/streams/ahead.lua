-- Find the streams whose last id is so far ahead of the clock that a sender must have made it up.
-- KEYS  1 late  2.. streams
-- ARGV  1 ms that an id may be ahead
-- Returns ms of the server's clock, the number of events in `late`, then for each stream 1 if it is ahead, else 0.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local out = {now, redis.call('XLEN', KEYS[1])}
for place = 2, #KEYS do
  local stream = KEYS[place]
  local found = redis.call('EXISTS', stream) == 1 and redis.call('XINFO', 'STREAM', stream) or {}
  out[#out + 1] = 0
  for i = 1, #found, 2 do
    if found[i] == 'last-generated-id' and tonumber(string.match(found[i + 1], '^%d+')) > now + tonumber(ARGV[1]) then
      out[#out] = 1
    end
  end
end
return out
