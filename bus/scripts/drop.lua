-- Forget a dead letter, and its event's body when no other delivery needs it.
-- KEYS  1 dead  2 delivery:<id>  3 deadletter:<id>
-- ARGV  1 id  2 prefix of all keys
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return 0 end
local event = redis.call('HGET', KEYS[2], 'event')
if event then
  local body = ARGV[2] .. 'body:' .. event
  if redis.call('EXISTS', body) == 1 and redis.call('HINCRBY', body, 'refs', -1) <= 0 then redis.call('DEL', body) end
end
redis.call('DEL', KEYS[2], KEYS[3])
return 1
