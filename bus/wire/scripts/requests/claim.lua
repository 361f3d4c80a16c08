-- Claim the run of a request's hooks with effects, or find out which evaluator has claimed it or has answered.
-- KEYS  1 stream of the entry  2 claim:<id>  3 verdict:<id>  4 reply  5 join:<id>  6 call:<hash>  7 lineage:<id>
--       8 question:<id>
-- ARGV  1 group  2 entry  3 consumer  4 kept ms  5 '1' when reply may be written  6 '1' when the call has a name
--       7 parent  8.. hooks about to run
-- Returns 'run'; 'again' (run them: a dead evaluator had begun); 'lost' (the entry is no longer ours); 'done' (this script
-- has sent the kept answer); 'joined' (the running evaluation will answer); 'same' and the verdict on the same hook call
-- (60 s); 'wait' (the same hook call is being evaluated now: ask again soon).
local pending = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[2], ARGV[2], 1)
if #pending == 0 or pending[1][2] ~= ARGV[3] then return {'lost'} end
redis.call('XACK', KEYS[1], ARGV[1], '0-0')  -- no entry: a full server lets a script continue after a write that needs no memory

local function leave()
  redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
  redis.call('XDEL', KEYS[1], ARGV[2])
end

local prior = redis.call('GET', KEYS[3])
if prior then
  local kept = redis.call('LINDEX', prior, 0)
  if kept then
    leave()
    if ARGV[5] == '1' and prior ~= KEYS[4] then
      redis.call('RPUSH', KEYS[4], kept)
      redis.call('PEXPIRE', KEYS[4], ARGV[4])
    end
    return {'done'}
  end
end

if ARGV[6] == '1' then
  local said = redis.call('GET', KEYS[6])
  local other, who = string.match(said or '', '^running (%S+) (%S+)$')
  if said and not other then return {'same', said} end
  -- The same hook call at the same moment: wait for its verdict, unless its evaluator died or only fell back.
  local prefix, id = string.match(KEYS[3], '^(.*:)verdict:(.-)$')
  if other and other ~= id and redis.call('EXISTS', prefix .. 'beat:' .. who) == 1
    and redis.call('EXISTS', prefix .. 'verdict:' .. other) == 0 then
    return {'wait'}
  end
  redis.call('SET', KEYS[6], 'running ' .. id .. ' ' .. ARGV[3], 'PX', ARGV[4])
end

-- The claim has the stream's name too: entries of two streams that were added in the same millisecond have the same id.
local place = KEYS[1] .. ' ' .. ARGV[2]
local word, mine = 'run', place .. ' ' .. ARGV[3]
local holder = redis.call('GET', KEYS[2])
if holder then
  local held = string.match(holder, '^(.*) ')
  -- The request was answered without a kept answer (no caller waited), so there is no running evaluation to join.
  if held ~= place and not prior then
    leave()
    if ARGV[5] == '1' then
      redis.call('RPUSH', KEYS[5], KEYS[4])
      redis.call('PEXPIRE', KEYS[5], ARGV[4])
      -- The request is held: this caller has to wait as long as the first one.
      local held = redis.call('HMGET', KEYS[8], 'state', 'reply')
      local left = held[1] == 'waiting' and redis.call('PTTL', held[2] .. ':wait') or 0
      if left > 0 and held[2] ~= KEYS[4] then
        redis.call('RPUSH', KEYS[4] .. ':wait', redis.call('LINDEX', held[2] .. ':wait', 0))
        redis.call('PEXPIRE', KEYS[4] .. ':wait', left)
      end
    end
    return {'joined'}
  end
  -- The same evaluator asks again because this script's reply was lost on the wire: it has not run any hook.
  if held == place and holder ~= mine then word = 'again' end
end
redis.call('SET', KEYS[2], mine, 'PX', ARGV[4])
if #ARGV > 7 then
  redis.call('HSET', KEYS[7], 'parent', ARGV[7])
  for i = 8, #ARGV do redis.call('HSET', KEYS[7], 'hook:' .. ARGV[i], '1') end
  redis.call('PEXPIRE', KEYS[7], ARGV[4])
end
return {word}
