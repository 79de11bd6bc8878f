-- renew gives a held lock its full TTL again. It never creates a lock.
--
-- KEYS     lock, queue, alive, fence (see queue.lua)
-- ARGV[1]  token
-- ARGV[2]  ttl, ms
-- Result   1 renewed, 0 the token does not hold the lock

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('PEXPIRE', KEYS[4], tonumber(ARGV[2]) + GRACE, 'GT') -- GT: see mint
return 1
