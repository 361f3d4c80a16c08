-- Try a delivery now: a later retry is due now, a parked delivery asks its gate again, a dead letter starts again. A member
-- of a batch is tried with the others.
-- KEYS  1 due  2 delivery:<id>  3 dead  4 job:<id> that counts it (may be left out)
-- ARGV  1 delivery  2 prefix of all keys  3 ms: only if nothing has happened to it since (0: in any case)
-- Returns 1 if it is tried again, 0 if it is under way, delivered, or has no body any more.
local prefix = ARGV[2]
-- with words
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local id, key = ARGV[1], KEYS[2]
local head = redis.call('HGET', key, 'head')
if head then id, key = head, prefix .. 'delivery:' .. head end
local d = redis.call('HMGET', key, 'state', 'target', 'updated')
if not d[2] or (tonumber(ARGV[3]) > 0 and tonumber(d[3]) > tonumber(ARGV[3])) then return 0 end
if d[1] == 'dead' then
  if redis.call('ZREM', KEYS[3], id) == 0 then return 0 end
  redis.call('HSET', key, 'tries', 0)
  redis.call('HINCRBY', key, 'redrives', 1)
elseif d[1] == 'parked' then
  if redis.call('LREM', prefix .. 'parked:' .. d[2], 1, id) == 0 then return 0 end
elseif d[1] ~= 'due' or not redis.call('ZSCORE', KEYS[1], id) then
  return 0
end
redis.call('HSET', key, 'state', 'due', 'due', now, 'updated', now)
redis.call('ZADD', KEYS[1], now, id)
give_word()
if KEYS[4] then redis.call('HINCRBY', KEYS[4], 'done', 1) end
return 1
