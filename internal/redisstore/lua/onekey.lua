-- onekey does for a mutex what can be done with the lock's own key alone: acquire,
-- renew or release it. It is for a Cluster's slot in migration. There a script
-- with several keys is refused wherever some of them are not, and most of a lock's
-- keys do not exist; one key is always at one of the two nodes, and commands on it
-- find it there. All that acquires, renews or releases a lock touches this key, so it still
-- has one holder. The queue is out of reach: whoever comes first gets a free lock.
--
-- Parts    none
-- KEYS     lock (see lock.lua)
-- ARGV[1]  token
-- ARGV[2]  'acquire', 'renew' or 'release'
-- ARGV[3]  ms: the TTL to acquire or renew it for; with release, how long it stays taken,
--          0 for no longer
-- ARGV[4]  with acquire, the highest fence that is known beside the lock, otherwise the
--          token's, or ''
-- Result   acquire: as acquire.lua, with a sixth element 1 if granted: the queue is not known
--          renew and release: 1 if the token has the lock, 0 if not
--          an error where a fence would have to be remembered beside the lock,
--          because the clock is behind it

local token, ms = ARGV[1], tonumber(ARGV[3])
local value = redis.call('GET', KEYS[1])
local time = redis.call('TIME')
local now_text = time[1] .. string.sub(1000000 + time[2], 2)
local now = tonumber(now_text)
local own = value and (value == token or string.sub(value, 1, #token + 1) == token .. ':')
local last = own and tonumber(string.sub(value, #token + 2)) or 0

if ARGV[2] ~= 'acquire' and not own then return 0 end
if last >= now or (tonumber(ARGV[4] or '') or 0) >= now then
  return redis.error_reply('TRYAGAIN the clock is behind the last fence, and the slot is in migration')
end

if ARGV[2] == 'acquire' then
  if not value or value == token or own and last == 0 then
    redis.call('SET', KEYS[1], token .. ':' .. now_text, 'PX', ms)
    return {1, now_text, now_text, '', '0', 1}
  end
  if own then
    redis.call('PEXPIRE', KEYS[1], ms)
    return {1, string.format('%.0f', last), now_text, '', '0', 1}
  end
  local mine, sibling = string.match(token, '^[^.]+') .. '.', ''
  if string.sub(value, 1, #mine) == mine then sibling = string.match(value, '^[^:]*') end
  return {0, redis.call('PTTL', KEYS[1]), now_text, sibling, 0}
end

if ms > 0 then
  redis.call('PEXPIRE', KEYS[1], ms)
else
  redis.call('DEL', KEYS[1])
end
return 1
