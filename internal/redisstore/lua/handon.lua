-- handon hands a lock on to a ticket, in the place of a release: from then on the ticket's token has the lock, until somebody
-- goes on with the work (resume.lua), or its time is over. Nobody who waits is given the lock, and all keep their places. It is short,
-- and about the lock's own key alone, so that it is not refused while a Cluster moves the slot.
--
-- Parts    none
-- KEYS     lock (see lock.lua)
-- ARGV[1]  token
-- ARGV[2]  the ticket's token
-- ARGV[3]  ms for which the ticket has the lock
-- ARGV[4]  the last fence that the token's locker has used: no later holder is to have it, or a lower one
-- ARGV[5]  the number behind the token in the lock's value. With another one the token has the lock by a command that came late, behind
--          the end of the work; a release that comes late as well is not to revive a ticket that was used
-- Result   1 the ticket has the lock, 0 neither it nor the token did

local token, ticket = ARGV[1], ARGV[2]
local value = redis.call('GET', KEYS[1]) or ''
if string.sub(value, 1, #ticket + 1) == ticket .. ':' then return 1 end -- it was asked before
if value ~= token then -- set by hand
  if string.sub(value, 1, #token + 1) ~= token .. ':' or string.match(value, ':[~!]?(%d+)$') ~= ARGV[5] then return 0 end
end
local fence = math.max(tonumber(string.sub(value, #token + 2)) or 0, tonumber(ARGV[4]) or 0)
local time = redis.call('TIME')
local now, ms = time[1] * 1000000 + time[2], tonumber(ARGV[3])
if fence >= now then -- the clock was set back: nothing but this value remembers the fence, until the clock has passed it
  ms = math.max(ms, math.ceil((fence - now) / 1000) + 1000)
end
-- A server that is full refuses SET, but not behind a command that has written. DEL would be one, too; but where a Cluster moves the slot, the node
-- that has deleted a key refuses the SET of it, and the lock would be free.
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('SET', KEYS[1], ticket .. ':' .. string.format('%.0f', fence > 0 and fence or now), 'PX', string.format('%.0f', ms))
return 1
