-- The queue of one lock, shared by all scripts that may hand the lock over.
--
-- KEYS[1] lock   string: the holder's token, always with a TTL
-- KEYS[2] queue  sorted set: "<token>:<ttl ms>" by ticket (arrival, in µs)
-- KEYS[3] alive  hash: process -> "<until µs><v|u|p>", see LIVES
-- KEYS[4] fence  string: the fence of the last grant
--
-- A token reads "<process>.<random>". All four keys carry a TTL whenever they
-- exist. Times are the server's; only durations come from outside.

local LIVES  = 3000000 -- µs a process counts as alive after its last question
local DEAF   = 1500000 -- µs it has left when nobody hears its channel
local KEEP   = 10000   -- ms an untouched queue outlives its last question
local FIRST  = 2000    -- ms a waiter gets with a hand-over, until it renews
local GRACE  = 1000    -- ms a fence outlives the lock it was minted for

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
    redis.call('SET', KEYS[4], fence, 'PX', ttl + GRACE)
  end
  return fence
end

-- clear forgets a lock that nobody holds or waits for. The fence stays only
-- while the clock has not passed it, or the next one might not be higher.
local function clear(now)
  local fence = redis.call('GET', KEYS[4])
  if fence and tonumber(fence) >= now then
    redis.call('DEL', KEYS[1], KEYS[3])
    redis.call('PEXPIRE', KEYS[4], math.ceil((tonumber(fence) - now) / 1000) + GRACE)
  else
    redis.call('DEL', KEYS[1], KEYS[3], KEYS[4])
  end
end

-- succeed gives the lock to the first live waiter and returns its token, or
-- nothing when there is none; then KEYS[1] is as it was. self is the asking
-- token: it lives and needs no message, and its caller sets the lock. channel
-- is the prefix of the processes' channels.
--
-- A process hears in one of three ways:
--   v  it subscribed here, so PUBLISH tells whether it is there: with no
--      receiver it is passed over and keeps its place
--   u  it subscribed somewhere in the cluster, PUBLISH cannot tell
--   p  it does not hear and polls: the grant waits for its next question
local function succeed(now, self, channel)
  local passed, deaf, heir = {}, {}, nil
  while not heir do
    local head = redis.call('ZPOPMIN', KEYS[2])
    local entry = head[1]
    if not entry then break end
    local token, process, ttl = string.match(entry, '^(([^.]+)%.[^:]*):(%d+)$')
    if token and token == self then
      heir = token -- the caller sets the lock, with the full TTL
    elseif token then
      local sign = not deaf[process] and redis.call('HGET', KEYS[3], process)
      if deaf[process] then
        passed[#passed + 1] = head
      elseif sign and tonumber(string.sub(sign, 1, -2)) > now then
        local hears = string.sub(sign, -1)
        local first = math.min(tonumber(ttl), FIRST)
        local fence = mint(now, tonumber(ttl))
        local heard = 1
        if hears ~= 'p' then
          local news = table.concat({token, fence, text(now), first, KEYS[1]}, ' ')
          heard = redis.call('PUBLISH', channel .. process, news)
        end
        if heard > 0 or hears ~= 'v' then
          heir = token
          redis.call('SET', KEYS[1], token, 'PX', first)
        else
          deaf[process] = true
          passed[#passed + 1] = head
          local until_ = math.min(tonumber(string.sub(sign, 1, -2)), now + DEAF)
          redis.call('HSET', KEYS[3], process, text(until_) .. hears)
        end
      end
    end
  end
  for _, head in ipairs(passed) do
    redis.call('ZADD', KEYS[2], head[2], head[1])
  end
  return heir
end
