-- Pause or disable an endpoint. Pausing parks its deliveries; disabling makes dead letters of those that wait.
-- KEYS  1 halted:<target>  2 openings
-- ARGV  1 target  2 paused or disabled  3 reason  4 by whom
-- Returns its state before: paused, disabled or ''. A paused endpoint may be disabled; other states do not change.
local prefix = string.sub(KEYS[2], 1, -9)  -- before `openings`
-- with words
local was = redis.call('HGET', KEYS[1], 'state')
if was and (was == ARGV[2] or was == 'disabled') then return was end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', KEYS[1], 'state', ARGV[2], 'reason', ARGV[3], 'by', ARGV[4], 'at', now)
if ARGV[2] == 'disabled' then
  redis.call('ZADD', KEYS[2], now, ARGV[1])
  give_word()
end
return was or ''
