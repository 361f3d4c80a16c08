-- Stop a maintenance job: the worker that does it ends after the present step.
-- KEYS  1 job:<id>  2 jobs:open
-- ARGV  1 id  2 now ms
-- Returns 1 if it was queued or running.
local state = redis.call('HGET', KEYS[1], 'state')
redis.call('ZREM', KEYS[2], ARGV[1])
if state ~= 'queued' and state ~= 'running' then return 0 end
redis.call('HSET', KEYS[1], 'state', 'stopped', 'updated', ARGV[2])
return 1
