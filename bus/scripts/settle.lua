-- The outcome of one attempt, once: logged, and delivered | due later | dead letter; frees the target's place.
-- KEYS  1 stream of the entry  2 delivery:<id>  3 body:<event>  4 due  5 dead  6 flight:<target>  7 parked:<target>
-- ARGV  1 group  2 entry  3 delivery  4 outcome (delivered, retry, dead)  5 now ms  6 due ms  7 reason
--       8 attempt record  9 kept ms of a delivered one  10 prefix of all keys  11 most attempts kept
-- Returns 1 where this call settled it, 0 where another had.
if redis.call('XACK', KEYS[1], ARGV[1], ARGV[2]) == 0 then return 0 end
redis.call('XDEL', KEYS[1], ARGV[2])
redis.call('ZREM', KEYS[6], ARGV[3])

local n = redis.call('HINCRBY', KEYS[2], 'attempts', 1)
redis.call('HINCRBY', KEYS[2], 'tries', 1)
redis.call('HSET', KEYS[2], 'attempt:' .. n, ARGV[8], 'updated', ARGV[5], 'reason', ARGV[7])
redis.call('HDEL', KEYS[2], 'attempt:' .. (n - tonumber(ARGV[11])))
if ARGV[4] == 'delivered' then
  redis.call('HSET', KEYS[2], 'state', 'delivered')
  redis.call('PEXPIRE', KEYS[2], ARGV[9])
  if redis.call('HINCRBY', KEYS[3], 'refs', -1) <= 0 then redis.call('DEL', KEYS[3]) end
elseif ARGV[4] == 'retry' then
  redis.call('HSET', KEYS[2], 'state', 'due', 'due', ARGV[6])
  redis.call('ZADD', KEYS[4], ARGV[6], ARGV[3])
else
  redis.call('HSET', KEYS[2], 'state', 'dead')
  redis.call('ZADD', KEYS[5], ARGV[5], ARGV[3])
end

local next = redis.call('LPOP', KEYS[7])
if next then
  local stream = redis.call('HGET', ARGV[10] .. 'delivery:' .. next, 'stream')
  if stream then
    redis.call('HSET', ARGV[10] .. 'delivery:' .. next, 'state', 'ready')
    redis.call('XADD', stream, '*', 'd', next)
  end
end
return 1
