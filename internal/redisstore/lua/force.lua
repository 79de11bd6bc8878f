-- force takes the lock from whoever has it. The next fence is higher than
-- theirs, and the lock goes to the first live waiters.
--
-- KEYS     lock, queue, alive, fence, holders (see lock.lua)
-- ARGV[1]  prefix of the processes' channels
-- Result   1 somebody had it, 0 nobody did

-- include lock
-- include queue
if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
redis.call('GET', KEYS[1]) -- an error if the key holds other data
local now = clock()
mint(now, 0)
redis.call('DEL', KEYS[1], KEYS[5])
local state = {}
succeed(state, now, '', ARGV[1])
if not state.holder and not state.count then
  clear(now, redis.call('EXISTS', KEYS[2]) == 1)
end
return 1
