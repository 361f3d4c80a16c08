-- Decide one call that ran without its pre-hook event, once, and announce the first of its session and cause.
-- KEYS  1 uncovered  2 coverage:<session>  3 gaps  4 events  5 announced:<session and cause>
-- ARGV  1 member of uncovered  2 session  3 call ('' if the agent has no ids)  4 tool  5 ms of the call  6 cause ('' if the
--       call was covered after all)  7 its text  8 ms that a session is kept  9 ms that the announcement is remembered
--       10 the most sessions that are listed  11.. fields of the event
-- Returns 2 if the gap was announced, 1 if it was counted or the call was covered, 0 if another worker had decided it.
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
local cause, done = ARGV[6], 1
if cause ~= '' then
  -- The event first: a server that refuses it, because it is full, has changed nothing, and the call is decided later.
  if redis.call('EXISTS', KEYS[5]) == 0 then
    redis.call('XADD', KEYS[4], '*', unpack(ARGV, 11))
    redis.call('SET', KEYS[5], '1', 'PX', ARGV[9])
    done = 2
  end
  redis.call('HINCRBY', KEYS[2], 'uncovered', 1)
  redis.call('HINCRBY', KEYS[2], 'calls:' .. cause, 1)
  redis.call('HSETNX', KEYS[2], 'since:' .. cause, ARGV[5])
  redis.call('HSET', KEYS[2], 'until:' .. cause, ARGV[5], 'tool:' .. cause, ARGV[4], 'text:' .. cause, ARGV[7])
  if ARGV[3] ~= '' then
    redis.call('HSET', KEYS[2], 'gap:' .. ARGV[3], cause)
  else
    redis.call('HINCRBY', KEYS[2], 'open:' .. ARGV[4], 1)
  end
  redis.call('PEXPIRE', KEYS[2], ARGV[8])
  redis.call('ZADD', KEYS[3], 'GT', ARGV[5], ARGV[2])
  redis.call('ZREMRANGEBYRANK', KEYS[3], 0, -ARGV[10] - 1)
end
redis.call('ZREM', KEYS[1], ARGV[1])
return done
