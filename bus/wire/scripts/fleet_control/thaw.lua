-- Lift stops, and record it.
-- KEYS  1 stops  2 stops:log  3 events  4 late
-- ARGV  1 how many ids  2.. the ids, then how many fields the log has, the log's fields, then those of the event
-- Returns how many of them were in force; the others were lifted before, which is not recorded again.
local lifted, count = 0, tonumber(ARGV[1])
for i = 2, count + 1 do lifted = lifted + redis.call('HDEL', KEYS[1], ARGV[i]) end
if lifted == 0 then return 0 end
local first = count + 3
local last = first - 1 + ARGV[count + 2]
redis.call('XADD', KEYS[2], 'MAXLEN', '~', 1000, '*', unpack(ARGV, first, last))
local added = redis.pcall('XADD', KEYS[3], '*', unpack(ARGV, last + 1))
if type(added) ~= 'string' then redis.call('XADD', KEYS[4], '*', unpack(ARGV, last + 1)) end
return lifted
