-- Several holders and the queue: a part of the scripts that need it, behind what
-- is answered without. See lock.lua for the keys.

-- liveness says how a waiting locker would learn of a grant, and so whether it
-- can have one:
--   v  it subscribed on this server, which can count who listens
--   u  it subscribed somewhere in the cluster, nobody can tell
--   p  it does not listen and polls: the grant waits for its next command
--   dead  it has not asked for too long
--   deaf  v, and nobody listens: it is gone, or has lost its connection
-- The asking locker needs nobody to listen, the answer tells it. A server on which
-- PUBSUB is renamed, or forbidden to this user, cannot tell either: v is u there.
local function liveness(now, locker, asking, channel)
  local till, how, behind = string.match(redis.call('HGET', KEYS[3], locker) or '', '^(%d+)([vup])(%d*)')
  till = tonumber(till)
  if not till or till <= now then
    redis.call('HDEL', KEYS[3], locker) -- the reply to its next command says that it is new here
    return 'dead'
  end
  if how == 'v' and locker ~= asking then
    local listening = redis.pcall('PUBSUB', 'NUMSUB', channel .. locker)
    if listening.err then return 'u' end
    if listening[2] == 0 then
      redis.call('HSET', KEYS[3], locker, digits(math.min(till, now + DEAF_US)) .. how .. behind)
      return 'deaf'
    end
  end
  return how
end

local function parse_terms(terms)
  local ttl, kind, least = string.match(terms, '^(%d+):?([sp]?%d*):?(%d*)$')
  return tonumber(ttl), kind, tonumber(least) or 0
end

-- are_terms says whether a lock can be granted by these terms. Those in the queue may have been
-- set by hand. Lua writes longer numbers with an exponent.
local function are_terms(ttl, kind, least)
  return ttl > 0 and ttl < 1e14 and least < 1e14
    and (kind == '' or kind == 's' or #kind < 14 and string.match(kind, '^p[1-9]%d*$') ~= nil)
end

-- read_state returns who holds the lock; value is what was read of it. holder is an
-- exclusive holder, and last_fence its fence, or 0 where that is not known here; since is
-- about when it took the lock, if it did so by SET. Otherwise count holders are there, of
-- semaphores with the limits {n, until} that may bind. Without either the lock is free.
-- It also cleans up: of several holders it removes those whose lease is over, and with
-- the last of them it deletes the lock.
local function read_state(now, value)
  if not value then return {last_fence = 0} end
  local permits = string.match(value, '^%*permits( %d+ %d+[ %d]*)$')
  if not permits and value ~= '*shared' then
    local token, set, fence = string.match(value, '^([^.:]+%.[^:]+):([~!]?)(%d+)$')
    if token and set ~= '' then
      return {holder = token, last_fence = 0, since = fence_of(fence)}
    end
    return {holder = token or value, last_fence = fence_of(fence) or 0} -- a foreign program tells no fence
  end
  for _, token in ipairs(redis.call('ZRANGE', KEYS[5], 0, digits(now), 'BYSCORE')) do
    redis.call('ZREM', KEYS[5], token, '=' .. token) -- its lease is over
  end
  local count = redis.call('ZCOUNT', KEYS[5], '(' .. digits(now), '+inf') -- a fence is below 0
  if count == 0 then
    redis.call('DEL', KEYS[1], KEYS[5])
    return {last_fence = 0}
  end
  local limits = permits and {}
  for n, till in string.gmatch(permits or '', ' (%d+) (%d+)') do
    limits[#limits + 1] = {tonumber(n), tonumber(till)}
  end
  return {count = count, limits = limits, last_fence = 0}
end

-- ms_to is how many ms are left to an end in KEYS[5], and 0 where none was found. There is one
-- as long as somebody holds, but for a clock that is set back while the script runs: Redis 7.0
-- counts new TTLs from the clock then, and has keys expire by the time at the script's begin.
local function ms_to(now, ends)
  return math.max(0, math.ceil((math.min(tonumber(ends) or now, 2^53) - now) / 1000))
end

-- last_ends_in is how many ms are left to the last of several holders.
local function last_ends_in(now)
  return ms_to(now, redis.call('ZRANGE', KEYS[5], -1, -1, 'WITHSCORES')[2])
end

-- admits says whether one more of a kind can have the lock.
local function admits(state, now, kind)
  if state.holder then return false end
  if not state.count then return true end
  if kind == 's' then return not state.limits end
  local n = state.limits and tonumber(string.sub(kind, 2))
  if not n then return false end
  for _, limit in ipairs(state.limits) do
    if limit[2] > now then n = math.min(n, limit[1]) end
  end
  return state.count < n
end

-- add_limit has n be a limit until its holder ends, beside those of the others that
-- still bind, and returns the lock's value that says so.
local function add_limit(state, now, n, ends)
  local others, value = {}, '*permits'
  for _, limit in ipairs(state.limits or {}) do
    if limit[1] == n then
      ends = math.max(ends, limit[2])
    elseif limit[2] > now then
      others[#others + 1] = limit
    end
  end
  others[#others + 1] = {n, ends}
  for _, limit in ipairs(others) do
    value = value .. ' ' .. limit[1] .. ' ' .. digits(limit[2])
  end
  state.limits = others
  return value
end

-- remember_used is for an exclusive holder that has the lock for ms from now on. A lock
-- that lapses has its TTL behind it, so the clock has passed its fence then, and those that
-- its locker has used without asking. But after the clock was set back it may lapse before.
-- Then the fence is remembered, and if need be room for those that may be used from now
-- on: a locker passes a lock on for less than half of its TTL. A caller that tells its
-- last fence (caller_fence) uses no more.
local function remember_used(now, state, ms)
  local fence = state.last_fence
  local room = state.caller_fence and 0 or math.min(LOCAL_FENCES, ms * 500)
  if fence + room >= now + ms * 1000 then fence = fence + room end
  if fence >= now then remember_fence(now, fence, 0) end
end

-- grant gives the lock to token for ms and returns its fence: the given one, or
-- a new one. What cannot be written because a key holds other data fails
-- before the lock is set.
local function grant(state, now, token, ms, kind, fence)
  local new = not fence
  if new then
    fence = next_fence(now, state)
    state.caller_fence = nil -- the next grant must exceed this one
  end
  if kind == '' then
    redis.call('SET', KEYS[1], token .. ':' .. fence, 'PX', ms)
    state.holder, state.last_fence = token, tonumber(fence)
    if not new then remember_used(now, state, ms) end
    return fence
  end
  local ends, value = now + ms * 1000, '*shared'
  if kind ~= 's' then
    value = add_limit(state, now, tonumber(string.sub(kind, 2)), ends)
  end
  local left = ms
  if state.count then
    left = math.max(ms, last_ends_in(now))
  elseif redis.call('ZCARD', KEYS[5]) > 0 then -- ZCARD: other data are no zset, an error
    redis.call('DEL', KEYS[5]) -- holders whose lock has expired
  end
  if new then
    remember_fence(now, tonumber(fence), left)
  else
    redis.call('PEXPIRE', KEYS[4], left + GRACE_MS, 'GT') -- GT: it may be ahead of the clock
  end
  redis.call('ZADD', KEYS[5], digits(ends), token, '-' .. fence, '=' .. token)
  redis.call('PEXPIRE', KEYS[5], left + GRACE_MS)
  redis.call('SET', KEYS[1], value, 'PX', left)
  state.count = (state.count or 0) + 1
  return fence
end

-- extend sets the TTL of an exclusive holder's lock.
local function extend(now, state, ms)
  redis.call('PEXPIRE', KEYS[1], ms)
  remember_used(now, state, ms)
end

-- renew_shared gives one of several holders its full TTL anew and returns its fence;
-- negated_fence is what KEYS[5] has of that. The ZREM comes first also because Redis,
-- when it is out of memory, lets a script write more only after it has freed.
local function renew_shared(state, now, token, ttl, kind, negated_fence)
  state.count = state.count - redis.call('ZREM', KEYS[5], token)
  return grant(state, now, token, ttl, kind, digits(-tonumber(negated_fence)))
end

-- remove_holder takes a token from several holders, or has it end in stay ms. It reports whether
-- it was one. The lock ends with the last of the others.
local function remove_holder(state, now, token, stay)
  if redis.call('ZREM', KEYS[5], token) == 0 then return false end
  if stay then
    redis.call('ZADD', KEYS[5], ended(now, stay), token)
  else
    redis.call('ZREM', KEYS[5], '=' .. token)
    state.count = state.count - 1
  end
  if state.count == 0 then -- no limit binds those who come now
    redis.call('DEL', KEYS[1])
    state.count, state.limits = nil, nil
    return true
  end
  local left = last_ends_in(now)
  redis.call('PEXPIRE', KEYS[1], left)
  redis.call('PEXPIRE', KEYS[5], left + GRACE_MS)
  if stay then remember_fence(now, highest_fence(state), left) end
  return true
end

-- grant_next gives the lock to those at the head of the queue, as many as the lock
-- admits. The deaf are passed over and keep their places, the dead are
-- forgotten; a live one that is not admitted keeps all behind it out. self is the
-- asking token, which needs no message; asking is its locker. channel is the
-- prefix of the lockers' channels. With own_messages, grants to the asking locker
-- are listed there for the answer; other grants are made first and then
-- published: whoever hears of a grant has it, also where the message takes its
-- own way, as to a replica.
-- Result: the token of the first who was granted the lock; self's fence, if self was;
-- whether a live one is left that is not admitted
local function grant_next(state, now, self, asking, channel, own_messages)
  local passed_over, liveness_of, next_holder, own_fence, full = {}, {}, nil, nil, false
  while not state.holder and not full do
    local head = redis.call('ZPOPMIN', KEYS[2])
    if not head[1] then break end
    local token, locker, ttl, kind, least =
      string.match(head[1], '^(([^.]+)%.[^:]*):(%d+):?([sp]?%d*):?(%d*)$')
    ttl, least = tonumber(ttl), tonumber(least) or 0
    local how
    if not token or not are_terms(ttl, kind, least) then
      how = 'dead' -- not one of ours
    elseif token == self then
      how = 'self'
    else
      how = own_messages and locker == asking and 'v' or liveness_of[locker] or liveness(now, locker, asking, channel)
      liveness_of[locker] = how
    end
    if how == 'deaf' then
      passed_over[#passed_over + 1] = head
    elseif how ~= 'dead' and not admits(state, now, kind) then
      passed_over[#passed_over + 1] = head
      full = true
    elseif how == 'self' then
      next_holder = next_holder or token
      own_fence = grant(state, now, token, ttl, kind)
    elseif how ~= 'dead' then
      next_holder = next_holder or token
      local first_ttl = math.max(math.min(ttl, FIRST_TTL_MS[how]), least)
      local fence = grant(state, now, token, first_ttl, kind)
      local behind = kind == '' and (passed_over[1] or redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES'))
      local arrival = behind and behind[1] and arrival_of(behind[2]) or '0' -- of the first who waits on
      local message = token .. ' ' .. fence .. ' ' .. digits(now) .. ' ' .. first_ttl .. ' ' .. arrival .. ' ' .. KEYS[1]
      if own_messages and locker == asking then
        own_messages[#own_messages + 1] = message
      elseif how ~= 'p' then
        redis.call('PUBLISH', channel .. locker, message)
      end
    end
  end
  if passed_over[1] then
    for _, head in ipairs(passed_over) do
      redis.call('ZADD', KEYS[2], head[2], head[1])
    end
    redis.call('PEXPIRE', KEYS[2], QUEUE_MS) -- the last ZPOPMIN took the TTL along with the key
  end
  return next_holder, own_fence, full
end
