-- Let a paused or disabled endpoint go on. Its breaker and its failures so far are forgotten.
-- KEYS  1 halted:<target>  2 breaker:<target>  3 failing:<target>  4 openings
-- ARGV  1 target  2 the state that it has to be in (paused or disabled)
-- Returns {its state before ('' for none), since ms, events missed}; it goes on only from the given state.
local prefix = string.sub(KEYS[4], 1, -9)  -- before `openings`
-- with words
local was = redis.call('HMGET', KEYS[1], 'state', 'at', 'missed')
if was[1] ~= ARGV[2] then return {was[1] or '', 0, 0} end
redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
redis.call('ZADD', KEYS[4], 0, ARGV[1])
give_word()
return {was[1], tonumber(was[2]) or 0, tonumber(was[3]) or 0}
