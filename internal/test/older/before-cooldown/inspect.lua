-- inspect tells who has the lock. It changes nothing.
--
-- Parts    lock (joined where the include lines stand, see scripts.go)
-- KEYS     lock, queue, processes, fence, holders (see lock.lua)
-- Result   {the lock's value or '', its PTTL ms, now µs, length of the queue,
--          {token, end µs, '=' .. token, -fence, …}, {process, heartbeat, …}}

-- include lock
local value = redis.call('GET', KEYS[1])
local holders = {}
if value and string.byte(value) == 42 then -- '*'
  holders = redis.call('ZRANGE', KEYS[5], 0, -1, 'WITHSCORES')
end
return {
  value or '', redis.call('PTTL', KEYS[1]), digits(clock()), redis.call('ZCARD', KEYS[2]), holders,
  redis.call('HGETALL', KEYS[3]),
}
