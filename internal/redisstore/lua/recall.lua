-- recall looks for the answer that was kept for the work under a lock, and asks for the lock if there is
-- none for the caller: the text of acquire.lua stands behind this one (scripts.go).
--
-- KEYS     those of acquire, and the record (see keep.lua)
-- ARGV     1 to 7 as acquire. With 'look' as ARGV[3] the lock is not asked for: for whoever has it
-- ARGV[8]  the fingerprint of what the caller asks for
-- ARGV[9]  µs since the caller came
-- Result   {2, record, now µs}: the record answers the caller, who has no place in the queue
--          any more; {2, '', now µs}: it only looks, and nothing answers it; or as acquire

-- record_for is the record if it answers one who came so many µs ago: the time for which it answers whoever
-- comes lasts still, or it was made when that one had come, who asks for the same.
local function record_for(waited, fingerprint, now)
  local record = redis.call('GET', KEYS[6])
  local made, till, of = string.match(record or '', '^(%d+) (%d+) (%S+) ')
  if not made then return nil end
  if now < tonumber(till) or of == fingerprint and now - waited < tonumber(made) then return record end
end

do
  local t = redis.call('TIME')
  local now = t[1] * 1000000 + t[2]
  local record = record_for(tonumber(ARGV[9]), ARGV[8], now)
  if ARGV[3] == 'look' then return {2, record or '', string.format('%.0f', now)} end
  if record then
    if redis.call('ZREM', KEYS[2], ARGV[1] .. ':' .. ARGV[2]) == 1 and redis.call('EXISTS', KEYS[2]) == 0 then
      redis.call('DEL', KEYS[3])
    end
    return {2, record, string.format('%.0f', now)}
  end
end

