-- A lock and what lies beside it; a part of every script but give, onekey and check.
-- scripts.go puts this text in the place of a line "-- include lock".
--
-- KEYS[1] lock     string, always with a TTL; see below for its value
-- KEYS[2] queue    sorted set: "<token>:<terms>" by ticket (arrival, in µs)
-- KEYS[3] alive    hash: process -> "<until µs><v|u|p><n>", see reach, sign
-- KEYS[4] fence    string: the highest fence, where no lock tells it: several
--                  hold, or the clock was set back behind it
-- KEYS[5] holders  sorted set, where several hold: token by the end of its
--                  lease (µs), and '=' .. token by its fence, negated
--
-- The lock's value    who holds it                   where the fence is
--   <token>:<fence>   an exclusive holder            in the value
--   <token>:~<µs>     one that took it by SET,       known to the holder alone; µs is
--                     without a script (set.go)      about when it took the lock, see OFF
--   <token>:!<µs>     the same, and somebody has     as above
--                     come to wait for it
--   *shared           several that share it          KEYS[4] the highest, KEYS[5] each one's
--   *permits <n> <until µs> …
--                     several that have a permit:    as above
--                     each n that was asked for
--                     binds all until then
--   anything else     a foreign program              nowhere
--
-- A token reads "<process>.<random>". All keys carry a TTL whenever they
-- exist. A process whose waiters follow one another without asking uses higher fences than
-- the lock tells, and gives the last of them with each question about the lock.
-- Times are the server's, and durations come from outside. There are two
-- exceptions: the µs behind ~ and ! are the client's estimate of the server's clock, and a
-- fence that comes in is one that the server told before.
--
-- Terms are what a token asks for: "<ttl ms>", or "<ttl ms>:<kind>:<least ms>".
-- Kind is '' (exclusive), 's' (shared) or 'p<n>' (one of n permits). With least
-- a grant lasts at least that long, whether its holder takes note of it or not.

local KEYS = KEYS -- all.lua moves it from one lock to the next

local LIVES = 2500000 -- µs a process counts as alive after it signed
local SIGNS = 500000  -- µs after which it signs anew when it asks
local DEAF  = 1500000 -- µs it has left when nobody hears its channel
local KEEP  = 10000   -- ms an untouched queue outlives the last signature
local GRACE = 1000    -- ms a fence outlives what it is kept for
local SEEN  = 64      -- holders of one process that are looked at for a lost message
local TURNS = 1000000 -- the fences above its own that a holder's process may use without asking: one a µs, for a second (lockmw/tenure.go)
local OFF   = 1000000 -- µs: a holder by SET has no fence further from its value's µs; offMost in set.go

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

-- keep remembers a fence beside the lock: for ms, and until the clock has
-- passed it.
local function keep(now, fence, ms)
  redis.call('SET', KEYS[4], text(fence), 'PX', math.max(ms, math.ceil((fence - now) / 1000)) + GRACE)
end

-- kept is the fence beside the lock, or last if that is higher.
local function kept(last)
  return math.max(last, tonumber(redis.call('GET', KEYS[4]) or 0) or 0)
end

-- mint makes the fence of a new grant; last is the one before, as far as the
-- lock tells. Fences grow even when the clock stepped back (by the last one) or
-- all data were lost (by the clock). A lock that lapses has its TTL behind it,
-- so the clock has passed its fence; one that was set back is remembered.
local function mint(now, last)
  last = kept(last)
  if last < now then return text(now) end
  keep(now, last + 1, 0)
  return text(last + 1)
end

-- clear frees a lock that nobody takes over; last is the fence it tells. Those
-- who wait (queued) and could not be told keep their places.
local function clear(now, queued, last)
  last = kept(last)
  if last >= now then
    keep(now, last, 0)
  else
    redis.call('DEL', KEYS[4])
  end
  if queued then
    redis.call('DEL', KEYS[1])
  else
    redis.call('DEL', KEYS[1], KEYS[3], KEYS[5])
  end
end
