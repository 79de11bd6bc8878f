-- check tells what keeps locks from working on this server, before the first one.
-- It changes nothing, and needs no right of its own.
--
-- Parts    none
-- KEYS     a lock
-- ARGV[1]  prefix of the lockers' channels
-- ARGV[2…] where the client takes the server for a single one: other locks, whose
--          keys a Cluster keeps in other slots
-- Result   {1 if the server is older than Redis 7.0; 1 if it is a node of a
--          Cluster, which was not expected; commands that the user may not run;
--          commands that the server does not know}, with blanks between commands

local key = KEYS[1]
local old, node = 0, 0

-- A Cluster's node refuses a script that touches keys of several slots.
for i = 2, #ARGV do
  local there = redis.pcall('EXISTS', ARGV[i])
  if type(there) == 'table' and there.err
    and (string.find(there.err, 'same slot', 1, true) or string.find(there.err, 'non local key', 1, true)
      or string.find(there.err, 'slot not served', 1, true)) then
    node = 1
  end
end

-- Redis 7.0 tells its version. What else does not may be no Redis at all; it
-- knows GT, which changes nothing here, or is as old as Redis without it.
if not redis.REDIS_VERSION then
  local set = redis.pcall('PEXPIRE', key, 1, 'GT')
  local said = type(set) == 'table' and set.err and string.lower(set.err) or ''
  if string.find(said, 'number of arg', 1, true) or string.find(said, 'syntax', 1, true) then old = 1 end
end

-- PUBSUB and what a subscription needs are not looked for: without them locks
-- work, and waiters find their turn by polling.
local needs = {
  {'EVALSHA', 'hash', '0'}, {'TIME'}, {'EXISTS', key}, {'GET', key}, {'SET', key, 'v', 'PX', '1'}, {'DEL', key},
  {'PTTL', key}, {'PEXPIRE', key, '1'},
  {'ZADD', key, '1', 'm'}, {'ZRANGE', key, '0', '0'}, {'ZREM', key, 'm'}, {'ZPOPMIN', key}, {'ZSCORE', key, 'm'},
  {'ZCARD', key}, {'ZCOUNT', key, '0', '0'},
  {'HSET', key, 'f', 'v'}, {'HGET', key, 'f'}, {'HDEL', key, 'f'}, {'HGETALL', key},
  {'PUBLISH', ARGV[1], ''},
}
local forbidden, unknown = {}, {}
for _, command in ipairs(redis.acl_check_cmd and needs or {}) do
  local known, allowed = pcall(redis.acl_check_cmd, unpack(command))
  if not known then
    unknown[#unknown + 1] = command[1]
  elseif not allowed then
    forbidden[#forbidden + 1] = command[1]
  end
end
return {old, node, table.concat(forbidden, ' '), table.concat(unknown, ' ')}
