-- Turn one event into its deliveries, once: ready, or parked if their target may not be tried now. A disabled endpoint gets
-- no delivery; the events that it misses are counted.
-- KEYS  1 events  2 body:<event>  3 recent  4 stats
-- ARGV  1 group ('' for a replay, which has nothing to acknowledge)  2 entry  3 event id  4 now ms  5 prefix of all keys  6 body  7 parent
--       8 stream of the event's own host, if that host has hooks of its own ('': it has none, '-': this is that host)
--       9 ms that it is kept  10 event type  11 tool  12 session  13 what to count  then the deliveries (shared/deliver.lua)
-- Returns the number of deliveries added, -1 if another dispatcher had acknowledged the entry.
if ARGV[1] ~= '' and redis.call('XACK', KEYS[1], ARGV[1], ARGV[2]) == 0 then return -1 end
local prefix, at = ARGV[5], ARGV[4]
-- with gates
-- with counting
-- with deliver
local created = deliver(14, {event = ARGV[3], entry = ARGV[2], parent = ARGV[7], type = ARGV[10], tool = ARGV[11],
  session = ARGV[12], body = ARGV[6], at = at, bodies = KEYS[2], recent = KEYS[3], stats = KEYS[4]})
if ARGV[8] ~= '' and ARGV[8] ~= '-' then
  redis.call('XADD', ARGV[8], '*', 'data', ARGV[6])
  redis.call('PEXPIRE', ARGV[8], ARGV[9])
  redis.call('ZADD', prefix .. 'kept', 'NX', at, string.sub(ARGV[8], #prefix + 8))  -- after `events:`
end
if ARGV[8] ~= '-' then redis.call('HINCRBY', KEYS[4], 'events', 1) end
count(ARGV[13])
write_counts(prefix)
return created
