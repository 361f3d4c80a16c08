-- Claim the run of a host's hooks for a request, or find the worker that runs them or their verdict. A request that is asked
-- twice (its evaluator died, and another one took over) is answered by the same run.
-- KEYS  1 requests:<host>  2 part:<id>  3 join:<id>:host
-- ARGV  1 group  2 entry  3 consumer  4 kept ms  5 reply  6 prefix of heartbeats
-- Returns {'run'}; {'joined'} (the worker that runs them will answer); {'done', the verdict}; {'died'} (the worker that ran them is gone).
redis.call('XACK', KEYS[1], ARGV[1], '0-0')  -- no entry: a full server lets a script continue after a write that needs no memory
local said = redis.call('GET', KEYS[2])
if not said then
  redis.call('SET', KEYS[2], 'running ' .. ARGV[3], 'PX', ARGV[4])
  return {'run'}
end
local verdict = string.match(said, '^done (.*)$')
if verdict then return {'done', verdict} end
if redis.call('EXISTS', ARGV[6] .. string.match(said, '%S+$')) == 0 then return {'died'} end
redis.call('RPUSH', KEYS[3], ARGV[5])
redis.call('PEXPIRE', KEYS[3], ARGV[4])
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
redis.call('XDEL', KEYS[1], ARGV[2])
return {'joined'}
