-- Put a message into the post boxes of sessions, and record it.
-- KEYS  1 messages  2 message:<id>  3 mail  4 events  5 late
-- ARGV  1 prefix of all keys  2 id  3 now ms  4 ms that the message is listed  5 ms that it waits  6 how many sessions
--       7.. for each session its box and its description, then how many fields the message has, its fields, those of the event
redis.call('XACK', KEYS[4], 'dispatchers', '0-0')  -- no entry: a full server lets a script continue after such a write
local now, kept, waits, count = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local first = 6 + 2 * count + 2
local last = first - 1 + ARGV[first - 1]
redis.call('HSET', KEYS[2], unpack(ARGV, first, last))
for i = 1, count do
  local box = ARGV[5 + 2 * i]
  redis.call('HSET', KEYS[2], 'to:' .. box, ARGV[6 + 2 * i])
  redis.call('RPUSH', ARGV[1] .. 'mail:' .. box, ARGV[2])
  redis.call('PEXPIRE', ARGV[1] .. 'mail:' .. box, waits)
  redis.call('ZADD', KEYS[3], now, box)
end
redis.call('PEXPIRE', KEYS[2], kept)
redis.call('ZADD', KEYS[1], now, ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - kept)
redis.call('PEXPIRE', KEYS[1], kept)
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now - waits)
redis.call('PEXPIRE', KEYS[3], waits)
local added = redis.pcall('XADD', KEYS[4], '*', unpack(ARGV, last + 1))
if type(added) ~= 'string' then redis.call('XADD', KEYS[5], '*', unpack(ARGV, last + 1)) end
return 1
