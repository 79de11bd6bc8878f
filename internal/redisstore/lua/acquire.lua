-- acquire asks for the lock once. Asked again with the same token it gives
-- the same answer, and a holder's full TTL starts anew.
--
-- KEYS     lock, queue, alive, fence, holders (see lock.lua)
-- ARGV[1]  token
-- ARGV[2]  terms (see lock.lua)
-- ARGV[3]  'try', 'wait' or 'last': what to leave behind when not granted:
--          nothing, a place in the queue, or nothing and the place given up
-- ARGV[4]  the asking process
-- ARGV[5]  how it hears: v, u or p
-- ARGV[6]  prefix of the processes' channels
-- Result   granted:     {1, fence, now µs[, tokens of the asking process that
--          hold and may not know it]}
--          not granted: {0, ms until a holder's TTL ends, now µs, such tokens,
--          1 if the process was not known as waiting here else 0}

-- include lock
local token, join = ARGV[1], ARGV[3]

-- What may be refused to this user is asked before anything is written.
local now = clock()
local empty = redis.call('EXISTS', KEYS[2]) == 0

-- Most questions are a mutex's, for a lock that is free.
local plain = tonumber(ARGV[2])
local taken = plain and redis.call('SET', KEYS[1], token, 'NX', 'PX', plain)
if taken and empty then
  return {1, mint(now, plain), text(now)}
end

-- include queue
local ttl, kind = parse(ARGV[2])
local entry = token .. ':' .. ARGV[2]

-- sign tells that the asking process lives, and how it hears now. It returns 1
-- if the process was not known.
local function sign(now)
  local fresh = redis.call('HSET', KEYS[3], ARGV[4], text(now + LIVES) .. ARGV[5])
  redis.call('PEXPIRE', KEYS[3], KEEP)
  return fresh
end

-- enqueue keeps an old place: NX. Tickets grow even if the clock does not.
local function enqueue(now)
  local ticket = now
  local tail = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')
  if tail[2] and tonumber(tail[2]) >= ticket then
    ticket = tonumber(tail[2]) + 1
  end
  local fresh = sign(now)
  redis.call('ZADD', KEYS[2], 'NX', text(ticket), entry)
  redis.call('PEXPIRE', KEYS[2], KEEP)
  return fresh
end

-- siblings are the other holders of the asking process. Where several hold,
-- those with a long lease know of it; the others may have missed their message.
local function siblings(state, now)
  local mine, all = ARGV[4] .. '.', {state.holder}
  if state.count then
    all = redis.call('ZRANGE', KEYS[5], text(now), text(now + 1000 * FIRST.v), 'BYSCORE', 'LIMIT', 0, SEEN)
  end
  local found = {}
  for _, holder in ipairs(all) do
    if holder ~= token and string.sub(holder, 1, #mine) == mine then found[#found + 1] = holder end
  end
  return table.concat(found, ' ')
end

-- left is when asking again may find a holder gone.
local function left(state, now)
  if state.limits and kind ~= 's' and kind ~= '' then -- the first of them to go leaves room
    local first = redis.call('ZRANGE', KEYS[5], text(now), '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
    return math.ceil((tonumber(first[2]) - now) / 1000)
  end
  return redis.call('PTTL', KEYS[1])
end

local state
if taken then
  -- The lock came free while others stand in line: its holder died, or a
  -- foreign program deleted the key. The first live one has it.
  redis.call('DEL', KEYS[1])
  state = {}
else
  state = standing(now, redis.call('GET', KEYS[1])) -- an error if the key holds other data
end

local negated = state.count and redis.call('ZSCORE', KEYS[5], '=' .. token)
if (negated or state.holder == token) and join == 'wait' and not empty then
  sign(now) -- for those of its process who wait on: it may hear by now
  redis.call('PEXPIRE', KEYS[2], KEEP)
end
if state.holder == token then
  redis.call('PEXPIRE', KEYS[1], ttl)
  local fence = redis.call('GET', KEYS[4])
  if fence then
    redis.call('PEXPIRE', KEYS[4], ttl + GRACE, 'GT') -- GT: see mint
  else
    fence = mint(now, ttl)
  end
  return {1, fence, text(now)}
end
if negated then
  return {1, prolong(state, now, token, ttl, kind, negated), text(now), siblings(state, now)}
end
if empty and room(state, now, kind) then
  return {1, hold(state, now, token, ttl, kind), text(now)}
end

local fresh = 0
if join == 'wait' then
  fresh = enqueue(now)
end
local full = false
if not state.holder then
  local _, mine, kept = succeed(state, now, token, ARGV[6])
  full = kept
  if not mine and not full and room(state, now, kind) then
    mine = hold(state, now, token, ttl, kind) -- nobody in front is there
  end
  if mine then
    redis.call('ZREM', KEYS[2], entry)
    return {1, mine, text(now), siblings(state, now)}
  end
end
if join == 'last' and redis.call('ZREM', KEYS[2], entry) == 1 then
  if redis.call('EXISTS', KEYS[2]) == 0 then
    redis.call('DEL', KEYS[3]) -- nobody waits any more
  elseif full then
    succeed(state, now, token, ARGV[6]) -- for those whom this one may have kept out
  end
end
return {0, left(state, now), text(now), siblings(state, now), fresh}
