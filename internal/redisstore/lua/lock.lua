-- A lock and what lies beside it; a part of the scripts that README.md says.
-- scripts.go puts this text in the place of a line "-- include lock".
--
-- KEYS[1] lock     string, always with a TTL; see below for its value
-- KEYS[2] queue    sorted set: "<token>:<terms>" by arrival (µs)
-- KEYS[3] lockers  hash: locker -> "<until µs><v|u|p><n>", see liveness, heartbeat;
--                  the key's name ends in ":alive"
-- KEYS[4] fence    string: the highest fence, where no lock tells it: several
--                  hold, or the clock was set back behind it
-- KEYS[5] holders  sorted set, where several hold: token by the end of its
--                  lease (µs), and '=' .. token by its fence, negated. An end that
--                  is no whole number says that the work is over, and the token only
--                  stays (see ended). An exclusive holder is there only then
--
-- The lock's value    who holds it                   where the fence is
--   <token>:<fence>   an exclusive holder            in the value
--   <token>:~<µs>     one that took it by SET,       known to the holder alone; µs is
--                     without a script (set.go)      about when it took the lock, see OFF_US
--   <token>:!<µs>     the same, and somebody has     as above
--                     come to wait for it
--   *shared           several that share it          KEYS[4] the highest, KEYS[5] each one's
--   *permits <n> <until µs> …
--                     several that have a permit:    as above
--                     each n that was asked for
--                     binds all until then
--   <token>           a token without a fence, set    nowhere: its next fence is new
--                     by hand: taken for its own
--   anything else     a foreign program              nowhere
--
-- A token reads "<locker>.<random>". All keys carry a TTL whenever they
-- exist. A locker whose waiters follow one another without asking uses higher fences than
-- the lock tells, and gives the last of them with each command about the lock.
-- Times are the server's, and durations come from outside. There are two
-- exceptions: the µs behind ~ and ! are the client's estimate of the server's clock, and a
-- fence that comes in is one that the server told before.
--
-- Terms are what a token asks for: "<ttl ms>", or "<ttl ms>:<kind>:<least ms>".
-- Kind is '' (exclusive), 's' (shared) or 'p<n>' (one of n permits). With least
-- a grant lasts at least that long, whether its holder takes note of it or not.

local KEYS = KEYS -- all.lua moves it from one lock to the next

local ALIVE_US      = 2500000 -- a locker counts as alive for so long after its heartbeat
local HEARTBEAT_US  = 500000  -- a locker that asks again after that writes its heartbeat anew
local DEAF_US       = 1500000 -- a locker counts as alive for at most so long when nobody hears its channel
local QUEUE_MS      = 10000   -- an untouched queue outlives the last heartbeat by that
local GRACE_MS      = 1000    -- a fence is remembered for so long after what it is remembered for has ended
local SIBLINGS_MOST = 64      -- holders of one locker that are looked at for a lost message
local LOCAL_FENCES  = 1000000 -- fences above its own that a holder's locker may use without asking: one a µs, for a second (lockmw/tenure.go)
local OFF_US        = 1000000 -- a holder by SET has no fence further from its value's µs; offMost in set.go

-- ms a waiter gets with a hand-over, until it renews; less where the server
-- cannot see whether the waiter is there
local FIRST_TTL_MS = {v = 2000, u = 1000, p = 1000}

local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

local function digits(n)
  return string.format('%.0f', n) -- tostring would lose digits
end

-- fence_of is the fence that a text tells, or nil. Lua cannot count on from 2^53, so another
-- program wrote such a number.
local function fence_of(text)
  local fence = tonumber(text)
  return fence and fence < 2^53 and fence or nil -- NaN is not less
end

-- arrival_of is the arrival that a score of the queue tells: never '0', which says that nobody
-- waits, and no more than Lua can count, whatever was set by hand.
local function arrival_of(score)
  return digits(math.max(1, math.min(tonumber(score), 2^53)))
end

-- refuse_while_moving ends the script with an error where a Cluster moves the slot. It comes
-- before the first write. While the slot moves, a node refuses commands on keys that it does not
-- have, and on several of which it has some: a script that came to one that it had deleted
-- itself would be stopped half-way. No key has the name here, so it is refused at once.
local function refuse_while_moving()
  redis.call('EXISTS', KEYS[1], KEYS[1] .. ':none')
end

-- remember_fence remembers a fence beside the lock: for ms, and until the clock has
-- passed it.
local function remember_fence(now, fence, ms)
  redis.call('SET', KEYS[4], digits(fence), 'PX', math.max(ms, math.ceil((fence - now) / 1000)) + GRACE_MS)
end

-- highest_fence is the fence beside the lock, or that of state if it is higher. Where the
-- caller is the exclusive holder and has told its last fence (caller_fence), nobody has had a
-- higher one: the fence beside the lock is from before its grant, or has room for fences that
-- it has not used.
local function highest_fence(state)
  if state.caller_fence then return state.last_fence end
  return math.max(state.last_fence, fence_of(redis.call('GET', KEYS[4])) or 0)
end

-- next_fence makes the fence of a new grant; state has the one before, as far as the lock
-- or its holder tells. Fences grow even when the clock stepped back (by the last one) or
-- all data were lost (by the clock). A lock that lapses has its TTL behind it,
-- so the clock has passed its fences; one that was set back is remembered.
local function next_fence(now, state)
  local last_fence = highest_fence(state)
  if last_fence < now then return digits(now) end
  remember_fence(now, last_fence + 1, 0)
  return digits(last_fence + 1)
end

-- ended is the score in KEYS[5] of a token whose work is over, and that stays for ms from
-- now. Half a microsecond says so: scripts that do not know of it find an end like any other.
local function ended(now, ms)
  return digits(now + ms * 1000 - 1) .. '.5'
end

-- free_lock frees a lock that nobody takes over; state has the fence that it tells. Those
-- who wait (queued) and could not be told keep their places.
local function free_lock(now, queued, state)
  local last_fence = highest_fence(state)
  if last_fence >= now then
    remember_fence(now, last_fence, 0)
  else
    redis.call('DEL', KEYS[4])
  end
  if queued then
    redis.call('DEL', KEYS[1])
  else
    redis.call('DEL', KEYS[1], KEYS[3], KEYS[5])
  end
end
