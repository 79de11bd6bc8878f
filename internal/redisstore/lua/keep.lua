-- keep keeps the answer of the work under a lock, if the token has the lock, which the script behind this
-- one gives back: release.lua or releaseto.lua (scripts.go).
--
-- KEYS     those of that script, and the record:
--          KEYS[6] record  string "<made µs> <until µs> <fingerprint> <data>": who had come before
--                          the one, and whoever comes before the other, is answered
-- ARGV     1 to 7 as that script
-- ARGV[8]  µs for which the record answers whoever comes
-- ARGV[9]  ms for which it lies there
-- ARGV[10] '<fingerprint> <data>'
-- Result   that of the script behind it: 0 says that nothing was kept

do
  local token, value = ARGV[1], redis.call('GET', KEYS[1])
  if value and (value == token or string.sub(value, 1, #token + 1) == token .. ':') then
    redis.call('EXISTS', KEYS[1], KEYS[1] .. ':none') -- before the first write, see refuse_while_moving
    local t = redis.call('TIME')
    local now = t[1] * 1000000 + t[2]
    -- All who stand in the queue have come by now, whatever a clock that was set back says.
    local tail = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')
    local made = math.max(now, (tonumber(tail[2]) or 0) + 1)
    redis.call('SET', KEYS[6], string.format('%.0f %.0f ', made, now + ARGV[8]) .. ARGV[10], 'PX', ARGV[9])
  end
end

