-- Note that hooks still run for a request, for every reply that waits for it; on a full server too.
-- KEYS  1 reply:<token>:wait  2 list of more replies that wait for it    ARGV  1 ms
local function keep(note)
  if redis.call('PEXPIRE', note, ARGV[1]) == 0 then
    redis.call('RPUSH', note, '1')
    redis.call('PEXPIRE', note, ARGV[1])
  end
end
keep(KEYS[1])
for _, reply in ipairs(redis.call('LRANGE', KEYS[2], 0, -1)) do keep(reply .. ':wait') end
return 1
