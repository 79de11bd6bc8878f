-- made_now is the beginning of a record that is made now, and answers whoever comes for so many µs.
-- It is part of keep and resolve.
local function made_now(retain)
  local t = redis.call('TIME')
  local now = t[1] * 1000000 + t[2]
  -- All who stand in the queue have come by now, whatever a clock that was set back says.
  local tail = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')
  return string.format('%.0f %.0f ', math.max(now, (tonumber(tail[2]) or 0) + 1), now + retain)
end

