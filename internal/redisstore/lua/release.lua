-- release gives back what a token has: the lock, and on request its place in
-- the queue. A lock that comes free goes to the first live waiters.
--
-- KEYS     lock, queue, alive, fence, holders (see lock.lua)
-- ARGV[1]  token
-- ARGV[2]  terms, as they were given to acquire; empty: leave the queue alone
-- ARGV[3]  prefix of the processes' channels
-- ARGV[4]  ms that the lock stays taken; empty: it is given back now
-- Result   0 the token did not hold the lock, 1 it did and gave it back,
--          2 it did and a waiter has it now

-- include lock
local token, stay = ARGV[1], tonumber(ARGV[4])
if ARGV[2] ~= '' then
  redis.call('ZREM', KEYS[2], token .. ':' .. ARGV[2])
end

local value = redis.call('GET', KEYS[1])
local now = clock()
local queued = redis.call('EXISTS', KEYS[2]) == 1
if value == token and not queued and not stay then -- most releases
  clear(now, false)
  return 1
end
if not queued and ARGV[2] ~= '' then
  redis.call('DEL', KEYS[3]) -- nobody waits any more
end

-- include queue
local state, held = {}, value == token
if held and stay then
  redis.call('PEXPIRE', KEYS[1], stay)
  linger(now, stay)
  if not queued then redis.call('DEL', KEYS[3]) end -- nobody comes to do it
  return 1
end
if not held then
  state = standing(now, value)
  if state.holder then
    return 0
  end
  held = state.count and drop(state, now, token, stay)
end

local heir
if queued then
  heir = succeed(state, now, '', ARGV[3])
elseif held and stay then
  redis.call('DEL', KEYS[3])
end
if not state.holder and not state.count then
  clear(now, redis.call('EXISTS', KEYS[2]) == 1)
end
if not held then
  return 0
end
return heir and 2 or 1
