-- Publish a hook set as the next version, and put it in force.
-- With keys 3 and 4, publish an event of Fleethook itself about it in the same step, so that nobody can announce it first.
-- KEYS  1 hookset:current  2 hookset:log  3 events  4 announced:<digest>
-- ARGV  1 prefix of version keys  2 the set  3 version that the publisher saw ('': any)  4 most kept
--       5 most log entries  6 ttl ms of key 4  7 number of the log's names and values  8.. these  .. fields of the event
-- Returns the new version, or 'moved' and the current one if another version was published meanwhile.
local current = redis.call('GET', KEYS[1]) or '0'
if ARGV[3] ~= '' and ARGV[3] ~= current then return {'moved', current} end
local version = tonumber(current) + 1
local after_log = 8 + tonumber(ARGV[7])
redis.call('SET', ARGV[1] .. version, ARGV[2])
redis.call('SET', KEYS[1], version)
redis.call('DEL', ARGV[1] .. (version - tonumber(ARGV[4])))
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[5], '*', 'version', version, unpack(ARGV, 8, after_log - 1))
if KEYS[4] and redis.call('SET', KEYS[4], '1', 'NX', 'PX', ARGV[6]) then
    redis.call('XADD', KEYS[3], '*', unpack(ARGV, after_log))
end
return {'ok', tostring(version)}
