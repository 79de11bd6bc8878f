-- releaseto gives a lock back, and puts a waiter of the same locker, of which
-- Redis did not know, in its place in the queue. Whoever is first then has the
-- lock. Asked again it gives the same answer about that waiter, if it has the
-- lock and its work is not over; its full TTL starts anew.
--
-- Parts    lock, enter, queue (joined where the include lines stand, see scripts.go)
-- KEYS     lock, queue, lockers, fence, holders (see lock.lua)
-- ARGV[1]  token
-- ARGV[2]  the waiter's token
-- ARGV[3]  its terms (see lock.lua), of an exclusive holder
-- ARGV[4]  how the locker hears, and the prefix of channels, as in acquire
-- ARGV[5]  µs the waiter has waited
-- ARGV[6]  how many more of the locker wait of whom Redis does not know
-- ARGV[7]  the fence, if the caller knows it, or ''
-- Result   the waiter's fence: it has the lock, and the fence is now µs too; or
--          {0, 1 or 2 as in release, its fence or '', now µs, the arrival of the
--          first who waits or '0', messages for other waiters of the locker…}. With 0
--          and '' the waiter has no place.

local token, waiter, plain = ARGV[1], ARGV[2], tonumber(ARGV[3])
local value = redis.call('GET', KEYS[1])
local queue_or_fence = redis.call('EXISTS', KEYS[2], KEYS[4]) > 0
local time = redis.call('TIME')
local now_text = time[1] .. string.sub(1000000 + time[2], 2)
local now = tonumber(now_text)
local own = value and (value == token or string.sub(value, 1, #token + 1) == token .. ':')
local last_fence = own and tonumber(string.sub(value, #token + 2))
local caller_fence = own and tonumber(ARGV[7])
if caller_fence and caller_fence >= (last_fence or 0) then last_fence = caller_fence else caller_fence = nil end
-- Out of memory this SET fails; then the lock is handed over below.
if last_fence and not queue_or_fence and plain and last_fence < now
  and not redis.pcall('SET', KEYS[1], waiter .. ':' .. now_text, 'PX', plain).err then
  return now_text
end

-- include lock
local locker = string.match(token, '^[^.]+')
local hears, channel = string.sub(ARGV[4], 1, 1), string.sub(ARGV[4], 2)
-- include enter
-- include queue
refuse_while_moving()
if not own then
  local state = read_state(now, value)
  local over = type(redis.pcall('ZSCORE', KEYS[5], waiter)) == 'string' -- its work is, and the key cools down: see renew
  if state.holder == waiter and state.last_fence > 0 and not over then
    extend(now, state, (parse_terms(ARGV[3])))
    return {0, digits(state.last_fence), now_text, first_arrival()}
  end
  return {0, '', now_text, '0'}
end
-- Where last_fence is not known, the caller was told no fence, so none has to be exceeded.
local state, answer = {last_fence = fence_of(last_fence) or 0, caller_fence = caller_fence}, {1, '', now_text, '0'}
-- Once maxmemory is reached Redis lets a script write only if its first write needs no
-- memory; this ZREM is that write. So what is held can be given back then, too.
redis.call('ZREM', KEYS[2], '')
enqueue(waiter .. ':' .. ARGV[3], tonumber(ARGV[5]))
local next_holder, fence = grant_next(state, now, waiter, locker, channel, answer)
if next_holder then answer[1] = 2 end
if fence then
  answer[2], answer[4] = fence, first_arrival()
else
  heartbeat(ARGV[6])
end
return answer
