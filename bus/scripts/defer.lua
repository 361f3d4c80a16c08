-- Put a request aside that needs a process while this evaluator has no free slot: others, or we later, take it up.
-- KEYS  1 requests  2 waiting
-- ARGV  1 group  2 entry  3.. fields (with the deadline that it had)
if redis.call('XACK', KEYS[1], ARGV[1], ARGV[2]) == 0 then return 0 end
redis.call('XDEL', KEYS[1], ARGV[2])
redis.call('XADD', KEYS[2], '*', unpack(ARGV, 3))
return 1
