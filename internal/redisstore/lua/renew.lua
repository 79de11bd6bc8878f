-- renew gives a held lock its full TTL again. It never creates a lock.
--
-- KEYS     lock, queue, alive, fence, holders (see lock.lua)
-- ARGV[1]  token
-- ARGV[2]  terms (see lock.lua)
-- Result   1 renewed, 0 the token does not hold the lock

-- include lock
local token = ARGV[1]
local value = redis.call('GET', KEYS[1])
local plain = tonumber(ARGV[2])
if value == token and plain then -- most renewals
  redis.call('PEXPIRE', KEYS[1], plain)
  redis.call('PEXPIRE', KEYS[4], plain + GRACE, 'GT') -- GT: see mint
  return 1
end

-- include queue
local ttl, kind = parse(ARGV[2])
if value == token then -- with a least
  redis.call('PEXPIRE', KEYS[1], ttl)
  redis.call('PEXPIRE', KEYS[4], ttl + GRACE, 'GT')
  return 1
end
local now = clock()
local state = standing(now, value)
local negated = state.count and redis.call('ZSCORE', KEYS[5], '=' .. token)
if not negated then
  return 0
end
prolong(state, now, token, ttl, kind, negated)
return 1
