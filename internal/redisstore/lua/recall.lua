-- recall looks for the answer that was kept for the work under a lock, and asks for the lock if there is
-- none for the caller: the text of acquire.lua stands behind this one (scripts.go).
--
-- KEYS     those of acquire, and the record (see keep.lua)
-- ARGV     1 to 7 as acquire. With 'look' as ARGV[3] the lock is not asked for; with 'begin' it is not either, and
--          the token has it, and notes that its work begins
-- ARGV[8]  the fingerprint of what the caller asks for
-- ARGV[9]  µs since the caller came
-- ARGV[10] with 'begin': the work's id
-- ARGV[11] with 'begin': ms for which the intent lies there
-- ARGV[12] with 'begin': '<µs for which an answer is to answer whoever comes> <how it is to be read>'
-- Result   {2, record, now µs}: the record answers the caller, or says that work was begun of which nobody knows more.
--          The caller has no place in the queue any more;
--          {2, '', now µs}: it only looks, and there is no such record; or it does not have the lock, and its work is
--          not noted;
--          {1, id, now µs}: its work is noted; or as acquire

-- answers reports whether a record answers one who came so many µs ago: the time for which it answers whoever
-- comes lasts still, or it was made when that one had come, who asks for the same.
local function answers(record, waited, fingerprint, now)
  local made, till, of = string.match(record, '^(%d+) (%d+) (%S+) ')
  return made and (now < tonumber(till) or of == fingerprint and now - waited < tonumber(made))
end

do
  local token, join = ARGV[1], ARGV[3]
  local t = redis.call('TIME')
  local now = t[1] * 1000000 + t[2]
  local now_text = string.format('%.0f', now)
  local record = redis.call('GET', KEYS[6]) or ''
  local begun = string.match(record, '^begun (%d+) ')
  local value, own, free
  if begun or join == 'begin' then
    value = redis.call('GET', KEYS[1])
    own = value and (value == token or string.sub(value, 1, #token + 1) == token .. ':')
    free = not value
  end
  if join == 'begin' and begun == ARGV[10] then begun = nil end -- it was asked before
  -- While somebody else has the lock, what was begun may yet have its answer.
  local found = answers(record, tonumber(ARGV[9]), ARGV[8], now) or begun and (own or free or join == 'look')
  if join == 'look' then return {2, found and record or '', now_text} end
  if found then
    if redis.call('ZREM', KEYS[2], token .. ':' .. ARGV[2]) == 1 and redis.call('EXISTS', KEYS[2]) == 0 then
      redis.call('DEL', KEYS[3])
    end
    return {2, record, now_text}
  end
  if join == 'begin' then
    -- A grant behind the one that the caller knows is that of a command that came late, and nobody does any work under it.
    local fence, known = own and tonumber(string.sub(value, #token + 2)), tonumber(ARGV[7])
    if not own or fence and known and fence > known then return {2, '', now_text} end
    redis.call('EXISTS', KEYS[1], KEYS[1] .. ':none') -- before the first write, see refuse_while_moving
    redis.call('SET', KEYS[6], table.concat({'begun', ARGV[10], now_text, ARGV[8], ARGV[12]}, ' '), 'PX', ARGV[11])
    return {1, ARGV[10], now_text}
  end
end

