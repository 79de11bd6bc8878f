-- The queue of one lock, shared by all scripts that may hand the lock over.
--
-- KEYS[1] lock   string: the holder's token, always with a TTL
-- KEYS[2] queue  sorted set: "<token>:<ttl ms>" by ticket (arrival, in µs)
-- KEYS[3] alive  hash: process -> "<until µs><v|u|p>", see reach
-- KEYS[4] fence  string: the fence of the last grant
--
-- A token reads "<process>.<random>". All four keys carry a TTL whenever they
-- exist. Times are the server's; only durations come from outside.

local LIVES = 2500000 -- µs a process counts as alive after its last question
local DEAF  = 1500000 -- µs it has left when nobody hears its channel
local KEEP  = 10000   -- ms an untouched queue outlives its last question
local GRACE = 1000    -- ms a fence outlives the lock it was minted for

-- ms a waiter gets with a hand-over, until it renews; less where the server
-- cannot see whether the waiter is there
local FIRST = {v = 2000, u = 1000, p = 1000}

local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

local function text(n)
  return string.format('%.0f', n) -- tostring would lose digits
end

-- mint makes the fence of a new grant. It grows even when the clock stepped
-- back (by the previous fence) or all data were lost (by the clock).
local function mint(now, ttl)
  local fence = text(now)
  local previous = redis.call('SET', KEYS[4], fence, 'PX', ttl + GRACE, 'GET')
  if previous and tonumber(previous) >= now then
    fence = text(tonumber(previous) + 1)
    redis.call('SET', KEYS[4], fence, 'PX', math.max(ttl, math.ceil((fence - now) / 1000)) + GRACE)
  end
  return fence
end

-- clear frees a lock that nobody takes over. Those who wait and could not be
-- told keep their places. The fence stays at least until the clock has passed
-- it, or the next one might not be higher.
local function clear(now)
  local fence, stays = tonumber(redis.call('GET', KEYS[4]) or 0), 0
  if fence >= now then
    stays = math.ceil((fence - now) / 1000) + GRACE
  end
  if redis.call('EXISTS', KEYS[2]) == 1 then
    redis.call('DEL', KEYS[1])
    stays = math.max(stays, KEEP)
  else
    redis.call('DEL', KEYS[1], KEYS[3])
  end
  if stays > 0 then
    redis.call('PEXPIRE', KEYS[4], stays)
  else
    redis.call('DEL', KEYS[4])
  end
end

-- reach says how a waiting process would learn of a grant, and so whether it
-- can have one:
--   v  it subscribed on this server, which can count who listens
--   u  it subscribed somewhere in the cluster, nobody can tell
--   p  it does not listen and polls: the grant waits for its next question
--   dead  it has not asked for too long
--   deaf  v, and nobody listens: it is gone, or has lost its connection
-- The asking process needs nobody to listen, the answer tells it.
local function reach(now, process, asking, channel)
  local sign = redis.call('HGET', KEYS[3], process) or '0p'
  local till, how = tonumber(string.sub(sign, 1, -2)), string.sub(sign, -1)
  if till <= now then
    redis.call('HDEL', KEYS[3], process) -- its next question is told Fresh
    return 'dead'
  end
  if how == 'v' and process ~= asking and redis.call('PUBSUB', 'NUMSUB', channel .. process)[2] == 0 then
    redis.call('HSET', KEYS[3], process, text(math.min(till, now + DEAF)) .. how)
    return 'deaf'
  end
  return how
end

-- grant sets the lock, then tells. In that order: whoever hears of a grant
-- has it, also where the message takes its own way, as to a replica.
local function grant(now, token, process, ttl, how, channel)
  local first = math.min(ttl, FIRST[how])
  local fence = mint(now, ttl)
  redis.call('SET', KEYS[1], token, 'PX', first)
  if how ~= 'p' then
    redis.call('PUBLISH', channel .. process, table.concat({token, fence, text(now), first, KEYS[1]}, ' '))
  end
end

-- succeed gives the lock to the first waiter that can have it and returns its
-- token, or nothing when there is none; then KEYS[1] is as it was. The deaf
-- are passed over and keep their places, the dead are forgotten. self is the
-- asking token: its caller sets the lock. channel is the prefix of the
-- processes' channels.
local function succeed(now, self, channel)
  local asking = string.match(self, '^[^.]+')
  local passed, known, heir = {}, {}, nil
  while not heir do
    local head = redis.call('ZPOPMIN', KEYS[2])
    if not head[1] then break end
    local token, process, ttl = string.match(head[1], '^(([^.]+)%.[^:]*):(%d+)$')
    if token and token == self then
      heir = token
    elseif token then
      local how = known[process] or reach(now, process, asking, channel)
      known[process] = how
      if how == 'deaf' then
        passed[#passed + 1] = head
      elseif how ~= 'dead' then
        heir = token
        grant(now, token, process, tonumber(ttl), how, channel)
      end
    end
  end
  for _, head in ipairs(passed) do
    redis.call('ZADD', KEYS[2], head[2], head[1])
  end
  redis.call('PEXPIRE', KEYS[2], KEEP) -- the last ZPOPMIN took the TTL along with the key
  return heir
end
