-- Record the outcomes of attempts, each once: delivered, due later, or dead letter. Frees the target's place, and records
-- the target's health: its breaker, and for how long an endpoint has only failed.
-- KEYS  1 (any key of the slot)
-- ARGV  1 group  2 consumer  3 kept ms of a delivered one  4 prefix of all keys  5 most attempts kept
--       6 ms to the first probe of an open breaker  7 most ms between probes  8 ms of only failures after which an endpoint
--       is disabled (0: never)  9 number of failures that this takes at least
--       then for each: stream, entry, delivery, outcome (delivered, retry, dead; wait: nothing was tried), ms until the next attempt, reason,
--       attempt record, what it shows of the target: '' nothing, ok (it answers), failed, open (failed, and its breaker is
--       to open), gone (the endpoint is to be disabled); with a space and ms, how long it asks for a pause
--       then what to count, and by which name its age is measured when it is delivered ('': by none)
-- Returns for each: 0 if another call settled the delivery or another carrier has it; else 1, or what changed for its
-- target: opened closed disabled failing:<percent>.
local group, consumer, prefix, MOST_KEPT = ARGV[1], ARGV[2], ARGV[4], tonumber(ARGV[5])
-- with gates
-- with health
-- with counting

-- A success counts from any carrier. A failure counts only from the carrier that has the entry: another one, which took the
-- delivery over, may be succeeding just now.
local function ours(stream, entry, outcome)
  if outcome == 'delivered' then return true end
  local pending = redis.call('XPENDING', stream, group, entry, entry, 1)
  return #pending > 0 and pending[1][2] == consumer
end

local counts = {}
local outcomes, AN_ENTRY = {}, 16  -- 2.3 µs for each outcome; one entry for each takes 4.5 µs (Valkey 9.1)

-- Add the outcomes so far to the stream that live feeds read.
local function flush_outcomes()
  if #outcomes > 0 then add_outcomes(unpack(outcomes)) end
  outcomes = {}
end

-- Settle one delivery, after so many attempts in all and tries since a person last sent it again.
local function conclude(id, key, event, attempts, tries, created, outcome, wait, reason, record, age)
  if outcome == 'wait' then
    redis.call('HSET', key, 'updated', now, 'reason', reason, 'state', 'parked', 'due', now + tonumber(wait))
    return
  end
  local n = (tonumber(attempts) or 0) + 1
  redis.call('HSET', key, 'attempts', n, 'tries', (tonumber(tries) or 0) + 1, 'attempt:' .. n, record, 'updated', now,
    'reason', reason, 'state', outcome == 'retry' and 'due' or outcome)
  if n > MOST_KEPT then redis.call('HDEL', key, 'attempt:' .. (n - MOST_KEPT)) end
  if outcome == 'delivered' then
    redis.call('PEXPIRE', key, ARGV[3])
    local body = prefix .. 'body:' .. event
    if redis.call('HINCRBY', body, 'refs', -1) <= 0 then redis.call('DEL', body) end
    if age ~= '' and created then observe_long('webhook_delivery_age_seconds|' .. age, now - created) end
  elseif outcome == 'retry' then
    redis.call('HSET', key, 'due', now + tonumber(wait))
  else
    redis.call('HDEL', key, 'members', 'head')  -- if it is tried again, the others are not
    redis.call('ZADD', prefix .. 'dead', now, id)
  end
  counts[outcome] = (counts[outcome] or 0) + 1
  outcomes[#outcomes + 1] = id
  outcomes[#outcomes + 1] = n .. ' ' .. outcome
  if #outcomes == AN_ENTRY then flush_outcomes() end
end

local out = {}
for i = 10, #ARGV, 10 do
  local stream, entry, id, outcome = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  if not ours(stream, entry, outcome) or redis.call('XACK', stream, group, entry) == 0 then
    out[#out + 1] = 0
  else
    local changed
    local key = prefix .. 'delivery:' .. id
    local d = redis.call('HMGET', key, 'target', 'event', 'kind', 'hook', 'line', 'members', 'attempts',
      'tries', 'created')
    redis.call('XDEL', stream, entry)
    if d[1] then
      redis.call('ZREM', prefix .. 'flight:' .. d[1], id)
      local lineage = prefix .. 'lineage:' .. d[2]
      if (d[3] == 'command' or d[3] == 'workflow') and redis.call('HEXISTS', lineage, 'hook:' .. d[4]) == 1 then
        redis.call('HSET', lineage, 'hook:' .. d[4], now)
      end
      local wait, reason, record = ARGV[i + 4], ARGV[i + 5], ARGV[i + 6]
      if string.sub(ARGV[i + 7], 1, 4) == 'gone' and is_endpoint(d[1]) then reason = 'disabled: ' .. reason end
      count(ARGV[i + 8])
      conclude(id, key, d[2], d[7], d[8], d[9], outcome, wait, reason, record, ARGV[i + 9])
      if outcome == 'retry' or outcome == 'wait' then redis.call('ZADD', prefix .. 'due', now + tonumber(wait), id) end
      if d[6] then  -- a batch: its outcome is the outcome of all members
        for one in string.gmatch(d[6], '%S+') do
          local its = prefix .. 'delivery:' .. one
          local m = redis.call('HMGET', its, 'event', 'attempts', 'tries', 'created')
          if m[1] then conclude(one, its, m[1], m[2], m[3], m[4], outcome, wait, reason, record, ARGV[i + 9]) end
        end
      end
      changed = note(d[1], id, outcome, ARGV[i + 7], reason)
      if d[5] and outcome ~= 'retry' and outcome ~= 'wait' then leave(d[1], id, d[5]) end
      release(d[1], changed == 'closed' and room(d[1]) or 1)
    end
    out[#out + 1] = changed or 1
  end
end
flush_outcomes()
for outcome, count in pairs(counts) do redis.call('HINCRBY', prefix .. 'stats', 'deliveries:' .. outcome, count) end
write_counts(prefix)
return out
