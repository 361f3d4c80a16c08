-- Forget a dead letter, and its event's body when no other delivery needs it.
-- KEYS  1 dead  2 delivery:<id>  3 deadletter:<id>  4 job:<id> that counts it (may be left out)
-- ARGV  1 id  2 prefix of all keys  3 ms: only a letter that died until then (0: any time)
local died = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not died or (tonumber(ARGV[3]) > 0 and tonumber(died) > tonumber(ARGV[3])) then return 0 end
redis.call('ZREM', KEYS[1], ARGV[1])
local event = redis.call('HGET', KEYS[2], 'event')
if event then
  local body = ARGV[2] .. 'body:' .. event
  if redis.call('EXISTS', body) == 1 and redis.call('HINCRBY', body, 'refs', -1) <= 0 then redis.call('DEL', body) end
end
redis.call('DEL', KEYS[2], KEYS[3])
if KEYS[4] then redis.call('HINCRBY', KEYS[4], 'done', 1) end
return 1
