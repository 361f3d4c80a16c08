-- Write a heartbeat, on a full server too: it refuses a script whose first write needs memory, and PEXPIRE needs none.
-- KEYS  1 beat:<consumer> or alive:<role>    ARGV  1 who  2 ms
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
