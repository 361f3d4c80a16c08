-- Publish a hook set as the next version, and put it in force.
-- KEYS  1 hookset:current  2 hookset:log
-- ARGV  1 prefix of version keys  2 the set  3 version that the publisher saw ('': any)  4 most kept
--       5 most log entries  6.. fields of the log
-- Returns the new version, or 'moved' and the current one if another version was published meanwhile.
local current = redis.call('GET', KEYS[1]) or '0'
if ARGV[3] ~= '' and ARGV[3] ~= current then return {'moved', current} end
local version = tonumber(current) + 1
redis.call('SET', ARGV[1] .. version, ARGV[2])
redis.call('SET', KEYS[1], version)
redis.call('DEL', ARGV[1] .. (version - tonumber(ARGV[4])))
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[5], '*', 'version', version, unpack(ARGV, 6))
return {'ok', tostring(version)}
