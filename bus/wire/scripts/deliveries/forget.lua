-- Forget deliveries that are done; those that wait, are under way or are dead stay.
-- KEYS  1 recent
-- ARGV  1 prefix of all keys  2.. ids
-- Returns how many were removed.
local gone = 0
for i = 2, #ARGV do
  local key = ARGV[1] .. 'delivery:' .. ARGV[i]
  local state = redis.call('HGET', key, 'state')
  if not state or state == 'delivered' then
    redis.call('DEL', key)
    redis.call('ZREM', KEYS[1], ARGV[i])
    gone = gone + 1
  end
end
return gone
