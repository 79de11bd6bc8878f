-- acquire asks for the lock once. Asked again with the same token it gives
-- the same answer, and a holder's full TTL starts anew.
--
-- KEYS     lock, queue, alive, fence (see queue.lua)
-- ARGV[1]  token
-- ARGV[2]  ttl, ms
-- ARGV[3]  'try', 'wait' or 'last': what to leave behind when not granted:
--          nothing, a place in the queue, or nothing and the place given up
-- ARGV[4]  the asking process
-- ARGV[5]  how it hears: v, u or p
-- ARGV[6]  prefix of the processes' channels
-- Result   granted:     {1, fence, now µs}
--          not granted: {0, holder's PTTL ms, now µs, holder's token if it is
--          of the asking process else '', 1 if the process was not known as
--          waiting here else 0}

local token, ttl, join = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local entry = token .. ':' .. ARGV[2]

-- enqueue keeps an old place: NX. Tickets grow even if the clock does not.
local function enqueue(now)
  local ticket = now
  local tail = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')
  if tail[2] and tonumber(tail[2]) >= ticket then
    ticket = tonumber(tail[2]) + 1
  end
  local fresh = redis.call('HSET', KEYS[3], ARGV[4], text(now + LIVES) .. ARGV[5])
  redis.call('ZADD', KEYS[2], 'NX', text(ticket), entry)
  redis.call('PEXPIRE', KEYS[2], KEEP)
  redis.call('PEXPIRE', KEYS[3], KEEP)
  return fresh
end

-- What may be refused to this user is asked before anything is written.
local now = clock()
local empty = redis.call('EXISTS', KEYS[2]) == 0

if redis.call('SET', KEYS[1], token, 'NX', 'PX', ttl) then
  if empty then
    return {1, mint(now, ttl), text(now)}
  end
  -- The lock came free while others stand in line: its holder died, or a
  -- foreign program deleted the key. The first live one has it.
  redis.call('DEL', KEYS[1])
  local fresh = 0
  if join == 'wait' then
    fresh = enqueue(now)
  end
  local heir = succeed(now, token, ARGV[6])
  if not heir or heir == token then
    redis.call('SET', KEYS[1], token, 'PX', ttl)
    redis.call('ZREM', KEYS[2], entry)
    return {1, mint(now, ttl), text(now)}
  end
  if join == 'last' then
    redis.call('ZREM', KEYS[2], entry)
  end
  local sibling = ''
  if string.sub(heir, 1, #ARGV[4] + 1) == ARGV[4] .. '.' then sibling = heir end
  return {0, redis.call('PTTL', KEYS[1]), text(now), sibling, fresh}
end

local holder = redis.call('GET', KEYS[1]) -- an error if the key holds other data
if holder == token then
  redis.call('PEXPIRE', KEYS[1], ttl)
  local fence = redis.call('GET', KEYS[4])
  if fence then
    redis.call('PEXPIRE', KEYS[4], ttl + GRACE, 'GT') -- GT: see mint
  else
    fence = mint(now, ttl)
  end
  return {1, fence, text(now)}
end

local fresh = 0
if join == 'wait' then
  fresh = enqueue(now)
elseif join == 'last' then
  redis.call('ZREM', KEYS[2], entry)
end
local sibling = ''
if string.sub(holder, 1, #ARGV[4] + 1) == ARGV[4] .. '.' then sibling = holder end
return {0, redis.call('PTTL', KEYS[1]), text(now), sibling, fresh}
