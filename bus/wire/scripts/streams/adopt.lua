-- Claim the pending entries of a consumer whose heartbeat is gone; remove the consumer when it has none left.
-- KEYS  1 stream  2 beat:<dead consumer>
-- ARGV  1 group  2 dead consumer  3 new consumer  4 most entries  5 metrics  6 the field that counts them there
-- Returns {{entry id, fields, times delivered}, ...}; empty if the consumer is alive again.
if redis.call('EXISTS', KEYS[2]) == 1 then return {} end
local pending = redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', ARGV[4], ARGV[2])
local taken = {}
for _, row in ipairs(pending) do
  local got = redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[3], 0, row[1])
  if got[1] and got[1][2] then
    taken[#taken + 1] = {row[1], got[1][2], row[4] + 1}
  else
    redis.call('XACK', KEYS[1], ARGV[1], row[1])  -- trimmed or deleted: nothing is left to resume
  end
end
if #pending < tonumber(ARGV[4]) then redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2]) end
if #taken > 0 then redis.pcall('HINCRBY', ARGV[5], ARGV[6], #taken) end
return taken
