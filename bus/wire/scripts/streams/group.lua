-- Make a group that reads a stream from its start, on a full server too. Fails with BUSYGROUP if the group exists.
-- KEYS  1 stream    ARGV  1 group  2 ms that a stream is kept which nobody writes to ('': it stays)
redis.call('XACK', KEYS[1], ARGV[1], '0-0')  -- no entry: a full server lets a script continue after a write that needs no memory
local is_new = redis.call('EXISTS', KEYS[1]) == 0
local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0', 'MKSTREAM')
-- Entries of before this moment that a worker still has are from a server that lost its data (shared/acknowledged.lua).
local prefix, name = string.match(KEYS[1], '^(.*}:)([^:]+)$')
if is_new and name and made.ok then
  local moved = prefix .. 'moved:' .. name
  local now = redis.call('TIME')
  redis.pcall('HSET', moved, 'since', now[1] * 1000 + math.floor(now[2] / 1000))
  redis.pcall('PEXPIRE', moved, 1200000)
end
if ARGV[2] ~= '' then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return made
