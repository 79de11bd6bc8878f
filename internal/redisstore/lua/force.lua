-- force takes the lock from whoever has it. The next fence is higher than
-- theirs, and the lock goes to the first live waiters.
--
-- Parts    lock, queue (joined where the include lines stand, see scripts.go)
-- KEYS     lock, queue, lockers, fence, holders (see lock.lua)
-- ARGV[1]  prefix of the lockers' channels
-- ARGV[2]  optional: '<author> <reason>', who has it taken and why, each percent-encoded and maybe empty
-- Result   1 somebody had it, 0 nobody did
-- Message  'revoked <token> <lock>' to the locker of each who had it; with ARGV[2] before that
--          'revoking <token> <author> <reason> <lock>'. Lockers that do not know the second message pass it over,
--          and read the first one exactly: so that has no room for more

-- include lock
-- include queue
local value = redis.call('GET', KEYS[1]) -- an error if the key holds other data
if not value then
  return 0
end
refuse_while_moving()
local now = clock()
local state = read_state(now, value)
-- The holder takes TIME as its fence only if that is at most OFF_US above µs, so µs + OFF_US
-- is at least its fence. Its locker may have used others since, up to LOCAL_FENCES above that.
-- That counts also where last_fence is below the clock: a locker that is not told goes on.
-- It uses none above the clock, so none above a fence that was ahead of the clock by
-- LOCAL_FENCES when it was granted, and is remembered beside the lock for that. So one release by
-- force after the other does not drive fences further and further ahead of the clock.
local last_fence = state.since and state.since + OFF_US or state.last_fence
local far_ahead = last_fence - now >= LOCAL_FENCES and last_fence == tonumber(redis.call('GET', KEYS[4]))
if last_fence > 0 and not far_ahead then last_fence = last_fence + LOCAL_FENCES end
for _, token in ipairs(state.holder and {state.holder} or redis.call('ZRANGE', KEYS[5], 0, -1)) do
  local locker = string.match(token, '^([^.=]+)%.')
  if locker then
    if ARGV[2] then
      redis.call('PUBLISH', ARGV[1] .. locker, 'revoking ' .. token .. ' ' .. ARGV[2] .. ' ' .. KEYS[1])
    end
    redis.call('PUBLISH', ARGV[1] .. locker, 'revoked ' .. token .. ' ' .. KEYS[1])
  end
end
redis.call('DEL', KEYS[1], KEYS[5])
state = {last_fence = last_fence}
grant_next(state, now, nil, nil, ARGV[1])
if not state.holder and not state.count then
  free_lock(now, redis.call('EXISTS', KEYS[2]) == 1, state)
end
return 1
