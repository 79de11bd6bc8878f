-- note notes that a call in shadow is at work, or was (lockmw.Policy.Shadow), and tells whether somebody else is who is not to be.
--
-- Parts    none
-- KEYS[1]  the lock of those who are not in shadow, see lock.lua
-- KEYS[2]  its holders, see lock.lua
-- KEYS[3]  the works    sorted set: "<token>:<kind>:<its begin, µs>" by the end of the work (µs). One that goes on has an
--                       end some seconds ahead, which each note moves
-- ARGV[1]  token
-- ARGV[2]  kind: '' (exclusive), 's' (shared) or 'p<n>' (one of n permits)
-- ARGV[3]  µs since the work began
-- ARGV[4]  µs since it ended, or '' while it goes on
-- ARGV[5]  when it began, by an earlier result, or ''
-- ARGV[6]  '1': look at the lock, too
-- Result   {when it began µs, 1 or 0: it was beside somebody from whom the lock would have kept it, 1 or 0: somebody has
--          the lock}
--
-- Of two works that overlap the one that is noted later says so, by its first note, so that each pair is told of once. A note
-- comes later than what it tells of: so a work that is over stays here for a while.

local ALIVE_US = 3000000 -- a work that is not noted any more counts as over after that
local LATE_US  = 2000000 -- a work that is over is remembered for so long
local MOST     = 256     -- works that are looked at: where more go on that may, one that may not can be overlooked
local OLD_MOST = 32      -- works that are forgotten by one note

local function digits(n)
  return string.format('%.0f', n)
end

redis.call('EXISTS', KEYS[1], KEYS[1] .. ':none') -- before the first write, see refuse_while_moving in lock.lua
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local token, kind = ARGV[1], ARGV[2]
local began, ended = tonumber(ARGV[5]), tonumber(ARGV[4])
local first, start = not began, began or now - tonumber(ARGV[3])
ended = ended and now - ended

local old = redis.call('ZRANGE', KEYS[3], '-inf', '(' .. digits(now - LATE_US), 'BYSCORE', 'LIMIT', 0, OLD_MOST)
if #old > 0 then redis.call('ZREM', KEYS[3], unpack(old)) end

local overlaps = false
local sharing = 0 -- others who have a permit
local n = string.match(kind, '^p(%d+)$')
local permits = n and tonumber(n)

-- meets takes in somebody else who is at work, by the first letter of his kind.
local function meets(of)
  if of == 'p' and permits then
    sharing = sharing + 1
    overlaps = overlaps or sharing >= permits
  elseif of ~= 's' or kind ~= 's' then
    overlaps = true
  end
end

if first then
  local found = redis.call('ZRANGE', KEYS[3], '(' .. digits(start), '+inf', 'BYSCORE', 'LIMIT', 0, MOST)
  for i = 1, #found do
    local other, of, its = string.match(found[i], '^(.*):(%w*):(%d+)$')
    if other == token then
      start = tonumber(its) -- it was noted before, and nobody has heard of it
    elseif other and (not ended or tonumber(its) < ended) then
      meets(string.sub(of, 1, 1))
    end
  end
end

local locked = false
local value = ARGV[6] == '1' and redis.pcall('GET', KEYS[1])
if type(value) == 'string' then
  if string.byte(value) == 42 then -- '*'
    local of = string.sub(value, 2, 2)
    local ends = redis.call('ZRANGE', KEYS[2], '(' .. digits(now), '+inf', 'BYSCORE', 'LIMIT', 0, MOST, 'WITHSCORES')
    for i = 2, #ends, 2 do
      if tonumber(ends[i]) % 1 == 0 then -- otherwise its work is over, and it only stays
        locked = true
        meets(of)
      end
    end
  else
    local stays = redis.pcall('ZSCORE', KEYS[2], string.match(value, '^[^:]*')) -- of a mutex the key may hold other data
    if type(stays) ~= 'string' or tonumber(stays) % 1 == 0 then
      locked = true
      meets('')
    end
  end
end

redis.call('ZADD', KEYS[3], digits(ended or now + ALIVE_US), token .. ':' .. kind .. ':' .. digits(start))
redis.call('PEXPIRE', KEYS[3], (ALIVE_US + LATE_US) / 1000)
return {digits(start), overlaps and 1 or 0, locked and 1 or 0}
