-- A lock and what lies beside it; the first part of every script.
--
-- KEYS[1] lock     string, always with a TTL: the token of an exclusive holder;
--                  '*shared' or '*permits <n> <until µs> …' where several may
--                  hold: each n that was asked for binds all until then
-- KEYS[2] queue    sorted set: "<token>:<terms>" by ticket (arrival, in µs)
-- KEYS[3] alive    hash: process -> "<until µs><v|u|p>", see reach
-- KEYS[4] fence    string: the fence of the last grant
-- KEYS[5] holders  sorted set, where several hold: token by the end of its
--                  lease (µs), and '=' .. token by its fence, negated
--
-- A token reads "<process>.<random>". All keys carry a TTL whenever they
-- exist. Times are the server's; only durations come from outside.
--
-- Terms are what a token asks for: "<ttl ms>", or "<ttl ms>:<kind>:<least ms>".
-- Kind is '' (exclusive), 's' (shared) or 'p<n>' (one of n permits). With least
-- a grant lasts at least that long, whether its holder takes note of it or not.

local KEYS = KEYS -- all.lua moves it from one lock to the next

local LIVES = 2500000 -- µs a process counts as alive after its last question
local DEAF  = 1500000 -- µs it has left when nobody hears its channel
local KEEP  = 10000   -- ms an untouched queue outlives its last question
local GRACE = 1000    -- ms a fence outlives the lock it was minted for
local SEEN  = 64      -- holders of one process that are looked at for a lost message

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

-- clear frees a lock that nobody takes over. Those who wait (queued) and could
-- not be told keep their places. The fence stays at least until the clock has
-- passed it, or the next one might not be higher.
local function clear(now, queued)
  local fence, stays = tonumber(redis.call('GET', KEYS[4]) or 0), 0
  if fence >= now then
    stays = math.ceil((fence - now) / 1000) + GRACE
  end
  if queued then
    redis.call('DEL', KEYS[1])
    stays = math.max(stays, KEEP)
  else
    redis.call('DEL', KEYS[1], KEYS[3], KEYS[5])
  end
  if stays > 0 then
    redis.call('PEXPIRE', KEYS[4], stays)
  else
    redis.call('DEL', KEYS[4])
  end
end
