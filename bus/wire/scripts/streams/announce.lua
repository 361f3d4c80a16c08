-- Publish an event of Fleethook itself, once for its subject.
-- KEYS  1 events  2 announced:<digest>
-- ARGV  1 ttl ms  2.. fields of the event
-- Returns 1 if it was published now, 0 if it had been before.
if not redis.call('SET', KEYS[2], '1', 'NX', 'PX', ARGV[1]) then return 0 end
redis.call('XADD', KEYS[1], '*', unpack(ARGV, 2))
return 1
