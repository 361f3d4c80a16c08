-- Hold a request: its question waits in Redis, and its entry leaves the stream. A repeated request waits for the same answer.
-- KEYS  1 stream of the entry  2 moved:<stream of the entry>  3 question:<id>  4 questions  5 approvals  6 join:<id>  7 reply
--       8 verdict:<id>  9 events  10 late
-- ARGV  1 group  2 entry  3 consumer whose question counts only while it has the entry ('' for any)  4 id
--       5 ms when something is due  6 ms that the caller's note is valid  7 kept ms of a repeated request's reply
--       8 now ms  9 ms that questions are listed  10 how many fields the question has
--       11.. the question's fields, then the fields of the event that says so
-- Returns 1 if the request is held or answered, 0 if another call has answered it or will.
local stream, moved, group, entry, consumer = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
-- with acknowledged

-- The note says that the call is held, and has the answer that counts if no other one comes in time.
local function note(reply, ms)
  redis.call('DEL', reply .. ':wait')
  redis.call('RPUSH', reply .. ':wait', redis.call('HGET', KEYS[3], 'provisional') or '1')
  redis.call('PEXPIRE', reply .. ':wait', ms)
end

local known = redis.call('HMGET', KEYS[3], 'state', 'reply', 'replied')
if known[1] then
  if known[2] == KEYS[7] and not known[3] then  -- the caller lost its connection, and waits again
    note(KEYS[7], ARGV[6])
    return 1
  end
  local prior = redis.call('GET', KEYS[8])
  local answer = prior and redis.call('LINDEX', prior, 0)
  if answer then
    if prior ~= KEYS[7] then
      redis.call('RPUSH', KEYS[7], answer)
      redis.call('PEXPIRE', KEYS[7], ARGV[7])
    end
  else
    redis.call('RPUSH', KEYS[6], KEYS[7])
    redis.call('PEXPIRE', KEYS[6], math.max(tonumber(ARGV[6]), tonumber(ARGV[7])))
    note(KEYS[7], ARGV[6])
  end
  return 1
end

-- A call with this id that was answered before it was asked about. Its caller has the answer; another caller's answer must not
-- become the answer of this call.
local before = redis.call('GET', KEYS[8])
if before == KEYS[7] and redis.call('EXISTS', before) == 1 then return 1 end
if before then redis.call('DEL', KEYS[8]) end

local last = 10 + ARGV[10]
redis.call('HSET', KEYS[3], unpack(ARGV, 11, last))
redis.call('PEXPIRE', KEYS[3], 2 * ARGV[9])  -- longer than any question, in case that nobody ever ends it
redis.call('ZADD', KEYS[4], ARGV[5], ARGV[4])
redis.call('ZADD', KEYS[5], ARGV[8], ARGV[4])
redis.call('ZREMRANGEBYSCORE', KEYS[5], '-inf', ARGV[8] - ARGV[9])
redis.call('PEXPIRE', KEYS[5], ARGV[9])
note(KEYS[7], ARGV[6])
local added = redis.pcall('XADD', KEYS[9], '*', unpack(ARGV, last + 1))
if type(added) ~= 'string' then redis.call('XADD', KEYS[10], '*', unpack(ARGV, last + 1)) end
return 1
