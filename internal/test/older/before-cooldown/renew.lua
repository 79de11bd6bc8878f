-- renew gives a held lock its full TTL again. It never creates a lock.
--
-- Parts    lock, queue (joined where the include lines stand, see scripts.go)
-- KEYS     lock, queue, processes, fence, holders (see lock.lua)
-- ARGV[1]  token
-- ARGV[2]  terms (see lock.lua)
-- ARGV[3]  the fence, if the caller knows it, or ''
-- Result   1 renewed, 0 the token does not hold the lock

local token = ARGV[1]
local value = redis.call('GET', KEYS[1])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local own = value and string.sub(value, 1, #token + 1) == token .. ':'
local last_fence = own and tonumber(string.sub(value, #token + 2))
local caller_fence = own and tonumber(ARGV[3])
if caller_fence and caller_fence > (last_fence or 0) then last_fence = caller_fence end
if last_fence and tonumber(ARGV[2]) and last_fence < now then
  redis.call('PEXPIRE', KEYS[1], ARGV[2]) -- most renewals
  return 1
end

-- include lock
-- include queue
local ttl, kind = parse_terms(ARGV[2])
local state = read_state(now, value)
if state.holder == token then
  state.last_fence = last_fence or state.last_fence
  extend(now, state, ttl)
  return 1
end
local negated_fence = state.count and redis.call('ZSCORE', KEYS[5], '=' .. token)
if not negated_fence then
  return 0
end
renew_shared(state, now, token, ttl, kind, negated_fence)
return 1
