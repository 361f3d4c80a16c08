-- Copy a page of a stream whose last id is made up to a fresh one; entries keep their ids, except made-up ones.
-- KEYS  1 stream  2 fresh:<stream>
-- ARGV  1 prefix of all keys  2 ms that an id may be ahead  3 ms when the stream was last seen in order
--       4 id of the last entry that was copied ('': start again)  5 most entries  6 ttl ms of the copy
-- Returns {id of the last one copied, number, bytes, {made-up id, new id, ...}}.
local stream, fresh, prefix, AHEAD_MS, SINCE_MS = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
-- with copying
if ARGV[4] == '' then redis.call('DEL', fresh) end
local cursor, number, bytes = copy_page(ARGV[4], ARGV[5])
redis.call('PEXPIRE', fresh, ARGV[6])
return {cursor, number, bytes, moved}
