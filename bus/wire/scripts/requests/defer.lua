-- Defer a request that needs a process while this evaluator has no free slot: an evaluator with a free slot reads it.
-- KEYS  1 stream of the entry  2 waiting  3 claim:<id>
-- ARGV  1 group  2 entry  3.. fields (with the deadline that it had)
if redis.call('XACK', KEYS[1], ARGV[1], ARGV[2]) == 0 then return 0 end
redis.call('XDEL', KEYS[1], ARGV[2])
local entry = redis.call('XADD', KEYS[2], '*', unpack(ARGV, 3))
local holder = redis.call('GET', KEYS[3])
if holder and string.match(holder, '^(.*) ') == KEYS[1] .. ' ' .. ARGV[2] then
  -- A dead evaluator has claimed the request: its claim moves to the new entry, which would wait for its answer otherwise.
  local moved = KEYS[2] .. ' ' .. entry .. ' ' .. string.match(holder, '%S+$')
  redis.call('SET', KEYS[3], moved, 'PX', math.max(1, redis.call('PTTL', KEYS[3])))
end
return 1
