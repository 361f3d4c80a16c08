-- Stop a maintenance job: whoever works at it ends after the step that is under way.
-- KEYS  1 job:<id>  2 jobs:open
-- ARGV  1 id  2 now ms
-- Returns 1 where it was queued or running.
local state = redis.call('HGET', KEYS[1], 'state')
redis.call('ZREM', KEYS[2], ARGV[1])
if state ~= 'queued' and state ~= 'running' then return 0 end
redis.call('HSET', KEYS[1], 'state', 'stopped', 'updated', ARGV[2])
return 1
