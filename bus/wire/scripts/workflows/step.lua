-- Write what a workflow did at an event, once: its new state, the record, the session's variables, the events that it
-- announces and the deliveries of its actions.
-- KEYS  1 flow:<session>:<workflow>  2 flowed:<event>  3 flowvars:<session>  4 flows  5 flowlog:<session>  6 events
--       7 body:<event>  8 recent  9 stats
-- ARGV  1 the workflow's id  2 the version that was read  3 token of the lease ('': none)  4 state ('': unchanged)
--       5 record ('': none)  6 kept ms  7 member of `flows`  8 now ms  9 prefix of all keys  10 event id  11 entry of the log ('':
--       none)  12 body  13 type  14 tool  15 session  16 parent  17 the event's entry  18 how many of these are variables
--       19 how many are announced fields  20 ms that the record is kept  then the variables: name, value ('': it is removed); the announced events: each the
--       number of its fields, then the fields; the deliveries (shared/deliver.lua)
-- Returns {'ok'}; {'done', record} if this event was handled before; {'stale'} if the state has changed since it was read.
local done = redis.call('HGET', KEYS[2], ARGV[1])
if done then return {'done', done} end
local found = redis.call('HMGET', KEYS[1], 'version', 'lease')
if (found[1] or '0') ~= ARGV[2] then return {'stale'} end
if string.match(found[2] or '', '^%S*') ~= ARGV[3] and ARGV[3] ~= '' then return {'stale'} end
local prefix, at, kept = ARGV[9], ARGV[8], ARGV[6]
-- with gates
-- with deliver
redis.call('HDEL', KEYS[1], 'lease')
if ARGV[4] ~= '' then
  redis.call('HSET', KEYS[1], 'state', ARGV[4], 'version', string.format('%d', ARGV[2] + 1))
  redis.call('PEXPIRE', KEYS[1], kept)
  redis.call('ZADD', KEYS[4], at, ARGV[7])
  redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', at - kept)
  redis.call('ZREMRANGEBYRANK', KEYS[4], 0, -10001)
  redis.call('PEXPIRE', KEYS[4], kept)
end
if ARGV[5] ~= '' then
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[5])
  if redis.call('PTTL', KEYS[2]) < tonumber(ARGV[20]) then redis.call('PEXPIRE', KEYS[2], ARGV[20]) end
end
if ARGV[11] ~= '' then
  redis.call('RPUSH', KEYS[5], ARGV[11])
  redis.call('LTRIM', KEYS[5], -256, -1)
  redis.call('PEXPIRE', KEYS[5], kept)
end
local first = 21 + ARGV[18]
for i = 21, first - 1, 2 do
  if ARGV[i + 1] == '' then redis.call('HDEL', KEYS[3], ARGV[i]) else redis.call('HSET', KEYS[3], ARGV[i], ARGV[i + 1]) end
end
if first > 21 then redis.call('PEXPIRE', KEYS[3], kept) end
local after = first + ARGV[19]
local i = first
while i < after do
  local fields = {}
  for n = i + 1, i + ARGV[i] do fields[#fields + 1] = ARGV[n] end
  -- If the stream takes no entry now, because its last id is made up (stream_repair.py), the event waits in `late`.
  if type(redis.pcall('XADD', KEYS[6], '*', unpack(fields))) ~= 'string' then
    redis.call('XADD', prefix .. 'late', '*', unpack(fields))
  end
  i = i + ARGV[i] + 1
end
deliver(after, {event = ARGV[10], entry = ARGV[17], parent = ARGV[16], type = ARGV[13], tool = ARGV[14], session = ARGV[15],
  body = ARGV[12], at = at, bodies = KEYS[7], recent = KEYS[8], stats = KEYS[9]})
return {'ok'}
