-- resume gives a lock that was handed on to a ticket (handon.lua) to whoever has the ticket: the ticket's token has it no more, and
-- so the ticket works once. Asked again with the same token it gives the same answer, and the full TTL starts anew. It comes
-- before all who wait, since the lock was not free in between.
--
-- Parts    lock, queue (joined where the include lines stand, see scripts.go)
-- KEYS     lock, queue, lockers, fence, holders (see lock.lua)
-- ARGV[1]  token
-- ARGV[2]  terms (see lock.lua), of an exclusive holder
-- ARGV[3]  the ticket's token
-- ARGV[4]  the number behind the token in the value of the lock that is to be handed on: by that the holder is known who has not
--          handed it on yet
-- Result   granted:     {1, fence, now µs}
--          not granted: {0, ms until the holder's TTL ends, now µs, '', 0}: it was not handed on yet;
--          {3, now µs}: the ticket has nothing, and never will: it was used or its time is over, or the lock was given back

-- include lock
-- include queue
refuse_while_moving()
local token, ticket = ARGV[1], ARGV[3]
local value = redis.call('GET', KEYS[1])
local now, ttl = clock(), (parse_terms(ARGV[2]))
local state = read_state(now, value)
if state.holder == token then
  extend(now, state, ttl)
  return {1, digits(state.last_fence), digits(now)}
end
if state.holder == ticket then
  redis.call('PEXPIRE', KEYS[1], ttl) -- see handon
  state.holder = nil
  return {1, grant(state, now, token, ttl, ''), digits(now)}
end
local stays = state.holder and redis.pcall('ZSCORE', KEYS[5], state.holder) -- its work is over; of a mutex KEYS[5] may hold other data
if type(stays) ~= 'string' and string.match(value or '', ':[~!]?(%d+)$') == ARGV[4] then
  return {0, redis.call('PTTL', KEYS[1]), digits(now), '', 0}
end
return {3, digits(now)}
