-- Read the state of a workflow for an event of its session, or find what it did at this event before. With a token, the state
-- is also leased: while an event waits for answers from outside, no other event of the session changes the state.
-- KEYS  1 flow:<session>:<workflow>  2 flowed:<event>  3 flowvars:<session>
-- ARGV  1 the workflow's id  2 token of the lease ('': none)  3 its worker  4 ms of the lease  5 prefix of heartbeats
-- Returns {'done', record}; {'wait'} (another event has the lease, and its worker is alive);
-- {'run', state or '', version, then names and values of the session's variables}.
local done = redis.call('HGET', KEYS[2], ARGV[1])
if done then return {'done', done} end
local found = redis.call('HMGET', KEYS[1], 'state', 'version', 'lease')
if ARGV[2] ~= '' then
  redis.call('HDEL', KEYS[1], 'none')  -- a full server lets a script continue after a write that needs no memory
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local token, worker, ends = string.match(found[3] or '', '^(%S+) (%S+) (%d+)$')
  if token and token ~= ARGV[2] and tonumber(ends) > now and redis.call('EXISTS', ARGV[5] .. worker) == 1 then
    return {'wait'}
  end
  redis.call('HSET', KEYS[1], 'lease', ARGV[2] .. ' ' .. ARGV[3] .. ' ' .. string.format('%d', now + ARGV[4]))
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[4]) then redis.call('PEXPIRE', KEYS[1], ARGV[4]) end
end
local out = {'run', found[1] or '', found[2] or '0'}
for _, part in ipairs(redis.call('HGETALL', KEYS[3])) do out[#out + 1] = part end
return out
