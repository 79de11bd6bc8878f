-- How a waiter gets its place; a part of the scripts that give one. It needs
-- what they have read: now_text (the time), now, queue_or_fence, locker, hears.

-- heartbeat notes that the asking locker is alive, how it hears of grants, and how many
-- wait in it (behind) who are not in the queue. It returns 1 if the locker was not known.
-- It writes nothing where the last heartbeat was a moment ago and said the same; that the
-- number has changed matters only where it is to be exact.
local function heartbeat(behind, exact)
  redis.call('PEXPIRE', KEYS[2], QUEUE_MS)
  local before = redis.call('HGET', KEYS[3], locker)
  local status = hears .. (behind or 0)
  if before and string.match(before, exact and '%a%d*$' or '%a') == (exact and status or hears) then
    local till = tonumber(string.match(before, '^%d+'))
    if till and till > now + ALIVE_US - HEARTBEAT_US then return 0 end
  end
  redis.call('HSET', KEYS[3], locker, digits(now + ALIVE_US) .. status)
  redis.call('PEXPIRE', KEYS[3], QUEUE_MS)
  return before and 0 or 1
end

-- enqueue gives entry the place of one who came waited µs ago (nil: now), but
-- none in front of what a clock that was set back has left; an old place is
-- kept: NX. value is the lock's. The first who waits for one that took the lock by SET
-- marks that: whoever finds no mark, and a queue, knows that SET was behind the queue.
-- It returns the arrival, which tells the place.
local function enqueue(entry, waited, value)
  local token, since = string.match(value or '', '^([^.:]+%.[^:]+):~(%d+)$')
  if token and (not queue_or_fence or redis.call('EXISTS', KEYS[2]) == 0) then
    redis.call('SET', KEYS[1], token .. ':!' .. since, 'KEEPTTL')
  end
  local arrival = waited and digits(now - waited) or now_text
  if queue_or_fence and redis.call('ZCOUNT', KEYS[2], now_text, '+inf') > 0 then
    local tail = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')
    arrival = arrival_of(tail[2] + 1)
  end
  if redis.call('ZADD', KEYS[2], 'NX', arrival, entry) == 0 then
    return arrival_of(redis.call('ZSCORE', KEYS[2], entry))
  end
  return arrival
end

-- first_arrival is the arrival of the first who waits, or '0'.
local function first_arrival()
  local head = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
  return head[1] and arrival_of(head[2]) or '0'
end
