-- release gives back what a token has: the lock, and on request its place in
-- the queue. A lock that comes free goes to the first live waiter.
--
-- KEYS     lock, queue, alive, fence (see queue.lua)
-- ARGV[1]  token
-- ARGV[2]  ttl, ms, as it was given to acquire; empty: leave the queue alone
-- ARGV[3]  prefix of the processes' channels
-- Result   0 the token did not hold the lock, 1 it did and the lock is free,
--          2 it did and a waiter has it now

local token = ARGV[1]
if ARGV[2] ~= '' then
  redis.call('ZREM', KEYS[2], token .. ':' .. ARGV[2])
end

local holder = redis.call('GET', KEYS[1])
if holder and holder ~= token then
  return 0
end

local now = clock()
local heir
if redis.call('EXISTS', KEYS[2]) == 1 then
  heir = succeed(now, '', ARGV[3])
end
if not heir then
  clear(now)
end
if not holder then
  return 0
end
return heir and 2 or 1
