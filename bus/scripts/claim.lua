-- Take the right to run hooks with effects for a request, or find out who has it or has answered.
-- KEYS  1 stream of the entry  2 claim:<id>  3 verdict:<id>  4 reply  5 join:<id>  6 call:<hash> or ''  7 lineage:<id>
-- ARGV  1 group  2 entry  3 consumer  4 kept ms  5 '1' when reply may be written  6 parent  7.. hooks about to run
-- Returns 'run'; 'again' (a dead evaluator had begun); 'lost' (the entry is no longer ours); 'done' (given the kept
-- verdict); 'joined' (the running evaluation will answer); 'same' and the kept answer (the same hook call, 60 s).
local pending = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[2], ARGV[2], 1)
if #pending == 0 or pending[1][2] ~= ARGV[3] then return {'lost'} end

local prior = redis.call('GET', KEYS[3])
if prior then
  local kept = redis.call('LINDEX', prior, 0)
  if kept then
    redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
    redis.call('XDEL', KEYS[1], ARGV[2])
    if ARGV[5] == '1' and prior ~= KEYS[4] then
      redis.call('RPUSH', KEYS[4], kept)
      redis.call('PEXPIRE', KEYS[4], ARGV[4])
    end
    return {'done'}
  end
end

if KEYS[6] ~= '' then
  local first = redis.call('GET', KEYS[6])
  local kept = first and first ~= KEYS[4] and redis.call('LINDEX', first, 0)
  if kept then return {'same', kept} end
end

local word = 'run'
if not redis.call('SET', KEYS[2], ARGV[2], 'NX', 'PX', ARGV[4]) then
  if redis.call('GET', KEYS[2]) ~= ARGV[2] then
    redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
    redis.call('XDEL', KEYS[1], ARGV[2])
    if ARGV[5] == '1' then
      redis.call('RPUSH', KEYS[5], KEYS[4])
      redis.call('PEXPIRE', KEYS[5], ARGV[4])
    end
    return {'joined'}
  end
  word = 'again'
end
if #ARGV > 6 then
  redis.call('HSET', KEYS[7], 'parent', ARGV[6])
  for i = 7, #ARGV do redis.call('HSET', KEYS[7], 'hook:' .. ARGV[i], '1') end
  redis.call('PEXPIRE', KEYS[7], ARGV[4])
end
return {word}
