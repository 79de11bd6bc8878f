-- release gives back what a token has: the lock, and on request its place in
-- the queue. A lock that comes free goes to the first live waiters.
--
-- Parts    lock, queue (joined where the include lines stand, see scripts.go)
-- KEYS     lock, queue, lockers, fence, holders (see lock.lua)
-- ARGV[1]  token
-- ARGV[2]  prefix of the lockers' channels
-- ARGV[3]  the fence, if the caller knows it, or ''
-- ARGV[4]  on request, terms as they were given to acquire: leave the queue
-- ARGV[5]  on request, ms that the lock stays taken; then ARGV[4] may be empty
-- ARGV[6]  what SET wrote, if it took the lock, from one who does not wait for the reply, and so cannot send give.lua first;
--          then ARGV[4] and ARGV[5] are empty. Or ''
-- Result   0 the token did not hold the lock, 1 it did and gave it back,
--          2 it did and a waiter has it now; or that in a list, with messages
--          for waiters of the token's locker behind it (see grant_next)

local token = ARGV[1]
local value = redis.call('GET', KEYS[1])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local set = ARGV[6] ~= '' and ARGV[6]
if set and value == set and now > tonumber(ARGV[3]) then
  redis.call('DEL', KEYS[1]) -- most of those, as give.lua does it
  return 1
end
local queue_or_fence = redis.call('EXISTS', KEYS[2], KEYS[4]) > 0
local own = value and (value == token or string.sub(value, 1, #token + 1) == token .. ':')
local last_fence = own and tonumber(string.sub(value, #token + 2))
local caller_fence = own and tonumber(ARGV[3])
if caller_fence and caller_fence >= (last_fence or 0) then last_fence = caller_fence else caller_fence = nil end
if last_fence and not queue_or_fence and (not ARGV[4] or set) and last_fence < now then
  redis.call('DEL', KEYS[1], KEYS[3], KEYS[5]) -- most releases
  return 1
end

-- include lock
refuse_while_moving()
local leave, stay = ARGV[4] and ARGV[4] ~= '', tonumber(ARGV[5])
if leave then
  redis.call('ZREM', KEYS[2], token .. ':' .. ARGV[4])
end
if (leave or stay) and redis.call('EXISTS', KEYS[2]) == 0 then
  redis.call('DEL', KEYS[3]) -- nobody waits any more; the next waiter's heartbeat makes it anew
end

-- include queue
local state, held = nil, own
if own then
  -- Where last_fence is not known, the caller was told no fence, so none has to be exceeded.
  state = {last_fence = fence_of(last_fence) or 0, caller_fence = caller_fence}
  if stay then
    extend(now, state, stay)
    -- That its work is over is for those who look. Of a mutex KEYS[5] may hold other data.
    if type(redis.pcall('ZADD', KEYS[5], ended(now, stay), token)) == 'number' then
      redis.call('PEXPIRE', KEYS[5], stay)
    end
    return 1
  end
else
  state = read_state(now, value)
  if state.holder then
    return 0
  end
  held = state.count and remove_holder(state, now, token, stay)
end

local answer = {held and 1 or 0}
local next_holder = queue_or_fence and grant_next(state, now, nil, string.match(token, '^[^.]+'), ARGV[2], answer)
if not state.holder and not state.count then
  free_lock(now, queue_or_fence and redis.call('EXISTS', KEYS[2]) == 1, state)
end
if held and next_holder then answer[1] = 2 end
return answer[2] and answer or answer[1]
