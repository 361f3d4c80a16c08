-- Record one step of a maintenance job: renews the worker's lease, and writes the progress.
-- KEYS  1 job:<id>  2 jobs:open  3 alive:job-<id>
-- ARGV  1 who  2 lease ms  3 ms that the job is kept  4 id  5 now ms
--       6 state from now on: running, queued (for another worker), done or failed
--       7 entries checked since the last step  8 entries done since the last step  9 cursor ('': unchanged)  10 error
-- Returns go, stopped (by a person, or it has ended) or lost (another worker does it).
local state = redis.call('HGET', KEYS[1], 'state')
if state ~= 'queued' and state ~= 'running' then
  if redis.call('GET', KEYS[3]) == ARGV[1] then redis.call('DEL', KEYS[3]) end
  redis.call('ZREM', KEYS[2], ARGV[4])
  return 'stopped'
end
local holder = redis.call('GET', KEYS[3])
if holder and holder ~= ARGV[1] then return 'lost' end
redis.call('HSET', KEYS[1], 'state', ARGV[6], 'updated', ARGV[5])
if ARGV[7] ~= '0' then redis.call('HINCRBY', KEYS[1], 'looked', ARGV[7]) end
if ARGV[8] ~= '0' then redis.call('HINCRBY', KEYS[1], 'done', ARGV[8]) end
if ARGV[9] ~= '' then redis.call('HSET', KEYS[1], 'cursor', ARGV[9]) end
if ARGV[10] ~= '' then redis.call('HSET', KEYS[1], 'error', ARGV[10]) end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
if ARGV[6] == 'running' then redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[2]) else redis.call('DEL', KEYS[3]) end
if ARGV[6] == 'running' or ARGV[6] == 'queued' then
  redis.call('PEXPIRE', KEYS[2], ARGV[3])
else
  redis.call('ZREM', KEYS[2], ARGV[4])
end
return 'go'
