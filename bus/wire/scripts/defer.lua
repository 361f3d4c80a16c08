-- Defer a request that needs a process while this evaluator has no free slot: any evaluator with a free slot takes it.
-- KEYS  1 stream of the entry  2 waiting  3 claim:<id>
-- ARGV  1 group  2 entry  3.. fields (with the deadline that it had)
if redis.call('XACK', KEYS[1], ARGV[1], ARGV[2]) == 0 then return 0 end
redis.call('XDEL', KEYS[1], ARGV[2])
local entry = redis.call('XADD', KEYS[2], '*', unpack(ARGV, 3))
local holder = redis.call('GET', KEYS[3])
if holder and string.match(holder, '^(.*) ') == KEYS[1] .. ' ' .. ARGV[2] then
  -- A dead evaluator had begun it: the claim moves too, else the new entry would wait for the dead one's answer.
  local moved = KEYS[2] .. ' ' .. entry .. ' ' .. string.match(holder, '%S+$')
  redis.call('SET', KEYS[3], moved, 'PX', math.max(1, redis.call('PTTL', KEYS[3])))
end
return 1
