-- inspect tells who has the lock, and whether an answer of work under it is kept. It changes nothing.
--
-- Parts    lock (joined where the include lines stand, see scripts.go)
-- KEYS     lock, queue, lockers, fence, holders (see lock.lua), record (see keep.lua)
-- Result   {the lock's value or '', its PTTL ms, now µs, length of the queue,
--          {"<token>:<terms>", arrival, …} of its first 20,
--          {token, end µs, '=' .. token, -fence, …}, {locker, heartbeat, …},
--          the record's beginning or '', its length};
--          an exclusive holder's token and end only if its work is over

-- include lock
local value = redis.call('GET', KEYS[1])
local holders = {}
if value and string.byte(value) == 42 then -- '*'
  holders = redis.call('ZRANGE', KEYS[5], 0, -1, 'WITHSCORES')
elseif value then
  local token = string.match(value, '^[^:]+') or ''
  local stays = redis.pcall('ZSCORE', KEYS[5], token) -- of a mutex the key may hold other data
  if type(stays) == 'string' then holders = {token, stays} end
end
local record = redis.pcall('GET', KEYS[6]) -- it may be other data
if type(record) ~= 'string' then record = '' end
return {
  value or '', redis.call('PTTL', KEYS[1]), digits(clock()), redis.call('ZCARD', KEYS[2]),
  redis.call('ZRANGE', KEYS[2], 0, 19, 'WITHSCORES'), holders,
  redis.call('HGETALL', KEYS[3]), string.match(record, '^begun %d+ %d+') or string.match(record, '^%d+ %d+ ') or '', #record,
}
