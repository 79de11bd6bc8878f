-- acquire asks for the lock once. Asked again by the holder's token it grants the lock
-- again, and the full TTL starts anew. The fence is the same, but for one that took the lock
-- by SET and was told no fence: that is given a new one. A waiter keeps its place.
--
-- Parts    lock, enter, queue (joined where the include lines stand, see scripts.go)
-- KEYS     lock, queue, lockers, fence, holders (see lock.lua)
-- ARGV[1]  token
-- ARGV[2]  terms (see lock.lua)
-- ARGV[3]  'try', 'wait' or 'last': what to leave behind when not granted:
--          nothing, a place in the queue, or nothing and the place given up
-- ARGV[4]  how the token's locker hears (v, u or p), and the prefix of the
--          lockers' channels, such as 'vlock:grants:'
-- ARGV[5]  with 'wait', optional: µs that the token has waited; its place is
--          that of one who came then
-- ARGV[6]  with ARGV[5]: how many of its locker wait of whom Redis does not know
-- ARGV[7]  with ARGV[6], optional: the fence, if the caller was told that it has the lock;
--          or, with 'last', '<token>:<terms>' of the next of its locker, who has a place in
--          the queue when the token leaves it. ARGV[5] and [6] are those of the next then
-- Result   granted:     the fence, which is now µs too; or {1, fence, now µs[,
--          tokens of the asking locker that hold and may not know it, the arrival of
--          the first who waits or '0']}
--          not granted: {0, ms until a holder's TTL ends, now µs, such tokens,
--          1 if the locker was not known as waiting here, or if the next has a place, else 0,
--          '<locker>:<fence>:<note>' of an exclusive holder or '', how many wait (0 to a waiter), 1 if the work
--          of all holders is over and they only stay, else 0 (also if not known)[,
--          '<locker>:<fence>:<note>' of the one of several holders that has the lock longest]}
-- Message  'contended <arrival> <token> <lock>' to the locker of an exclusive holder,
--          when one of another locker waits, each time that it asks, and when it brings
--          the next one

-- Most commands are about a mutex that is free. EXISTS and TIME come before SET:
-- if an ACL forbids one, nothing has been written.
local token, join, plain = ARGV[1], ARGV[3], tonumber(ARGV[2])
local time = redis.call('TIME')
local now_text = time[1] .. string.sub(1000000 + time[2], 2)
local queue_or_fence = redis.call('EXISTS', KEYS[2], KEYS[4]) > 0
local value
if plain then
  value = redis.call('SET', KEYS[1], token .. ':' .. now_text, 'NX', 'GET', 'PX', ARGV[2])
  if not queue_or_fence and not value then return now_text end
else
  value = redis.call('GET', KEYS[1])
end

-- include lock
local now = tonumber(now_text)
local entry = token .. ':' .. ARGV[2]
local locker = string.match(token, '^[^.]+')
local hears, channel = string.sub(ARGV[4], 1, 1), string.sub(ARGV[4], 2)

-- describe_holder names an exclusive holder, its fence and its note by the lock's value, without
-- the secret part of its token.
local function describe_holder(value)
  local holder, note, fence = string.match(value, '^([^.:]+)%.[^.:]+%.?([^:]*):[~!]?(%d+)$')
  return holder and holder .. ':' .. fence .. ':' .. note or ''
end

-- stays tells, as 1 or 0, whether the work of an exclusive holder is over. Of a mutex KEYS[5]
-- may hold other data.
local function stays(holder)
  return holder and type(redis.pcall('ZSCORE', KEYS[5], holder)) == 'string' and 1 or 0
end

-- include enter
-- A lock that one other holds is waited for.
if join == 'wait' and value and string.byte(value) ~= 42 -- '*'
  and string.sub(value, 1, #token + 1) ~= token .. ':' and value ~= token then
  local holder, of = string.match(value, '^(([^.:]+)%.[^:]+):')
  local sibling, arrival = '', enqueue(entry, tonumber(ARGV[5]), value)
  if of == locker then
    sibling = holder
  elseif of then
    redis.call('PUBLISH', channel .. of, 'contended ' .. arrival .. ' ' .. holder .. ' ' .. KEYS[1])
  end
  return {0, redis.call('PTTL', KEYS[1]), now_text, sibling, heartbeat(ARGV[6], true), describe_holder(value), 0, stays(holder)}
end

-- include queue
refuse_while_moving()
local ttl, kind = parse_terms(ARGV[2])

-- siblings are the other holders of the asking locker. Where several hold,
-- those with a long lease know of it; the others may have missed their message.
local function siblings(state)
  local mine, all = locker .. '.', {state.holder}
  if state.count then
    all = redis.call('ZRANGE', KEYS[5], now_text, digits(now + 1000 * FIRST_TTL_MS.v), 'BYSCORE', 'LIMIT', 0, SIBLINGS_MOST)
  end
  local found = {}
  for _, holder in ipairs(all) do
    if holder ~= token and string.sub(holder, 1, #mine) == mine then found[#found + 1] = holder end
  end
  return table.concat(found, ' ')
end

-- ms_until_free is how long it takes until asking again may find a holder gone.
local function ms_until_free(state)
  if state.limits and kind ~= 's' and kind ~= '' then -- the first of them to go makes room
    local ends = redis.call('ZRANGE', KEYS[5], now_text, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
    return ms_to(now, ends[2])
  end
  return redis.call('PTTL', KEYS[1])
end

-- all_stay tells, as 1 or 0, whether the work of all who have the lock is over. Where they
-- are more than SIBLINGS_MOST, that is not looked for.
local function all_stay(state)
  if not state.count then return stays(state.holder) end
  if state.count > SIBLINGS_MOST then return 0 end
  local all = redis.call('ZRANGE', KEYS[5], now_text, '+inf', 'BYSCORE', 'WITHSCORES')
  for i = 2, #all, 2 do
    if tonumber(all[i]) % 1 == 0 then return 0 end
  end
  return 1
end

-- oldest describes the one of several holders that has had the lock longest and whose work is not over. It is not
-- looked for behind the first SIBLINGS_MOST of them.
local function oldest(state)
  if not state.count then return nil end
  local all = redis.call('ZRANGE', KEYS[5], '(0', '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, SIBLINGS_MOST, 'WITHSCORES')
  for i = 1, #all, 2 do
    local holder = string.sub(all[i], 2)
    local ends = tonumber(redis.call('ZSCORE', KEYS[5], holder) or '')
    if ends and ends % 1 == 0 then return describe_holder(holder .. ':' .. digits(-tonumber(all[i + 1]))) end
  end
  return nil
end

local empty = not queue_or_fence or redis.call('EXISTS', KEYS[2]) == 0
local jumped = not empty and value and string.sub(value, 1, #token + 2) == token .. ':~'
if plain and not value or jumped then
  -- Case 1, plain and not value: SET above took the lock, which was free. But there is a
  -- queue, since the holder died or a foreign program deleted the key, and the first live
  -- waiter has the lock; or a fence is remembered, and this grant's must be higher.
  -- Case 2, jumped: the token took the lock by SET before, and a queue was there already.
  -- Nobody was told of either grant, so it can be undone.
  redis.call('DEL', KEYS[1])
  value = nil
end
local state = read_state(now, value)

local negated_fence = state.count and redis.call('ZSCORE', KEYS[5], '=' .. token)
if (negated_fence or state.holder == token) and join == 'wait' and not empty then
  heartbeat(ARGV[6]) -- for those of its locker who wait on: it may hear by now
end
if state.holder == token then
  if state.last_fence == 0 then -- it was taken by SET, and its fence is new unless the caller knows it
    local known_fence = tonumber(ARGV[7])
    state.last_fence = known_fence or 0
    return {1, grant(state, now, token, ttl, kind, known_fence and digits(known_fence)), now_text, '', first_arrival()}
  end
  extend(now, state, ttl)
  return {1, digits(state.last_fence), now_text, '', first_arrival()}
end
if negated_fence then
  return {1, renew_shared(state, now, token, ttl, kind, negated_fence), now_text, siblings(state), '0'}
end
if empty and admits(state, now, kind) then
  return {1, grant(state, now, token, ttl, kind), now_text}
end

local fresh = 0
if join == 'wait' then
  enqueue(entry, tonumber(ARGV[5]), value)
  fresh = heartbeat(ARGV[6], true)
end
local full = false
if not state.holder then
  local _, mine, without = grant_next(state, now, token, locker, channel)
  full = without
  if not mine and not full and admits(state, now, kind) then
    mine = grant(state, now, token, ttl, kind) -- nobody in front is there
  end
  if mine then
    redis.call('ZREM', KEYS[2], entry)
    return {1, mine, now_text, siblings(state), first_arrival()}
  end
end
if join == 'last' then
  local left, next_one = redis.call('ZREM', KEYS[2], entry) == 1, string.match(ARGV[7] or '', '^([^:]+):')
  if next_one and redis.call('ZSCORE', KEYS[2], ARGV[7]) then
    fresh = 1
  elseif next_one and left and next_one ~= state.holder then
    -- The token still stood in the queue, so this command does not come late, when nobody waits for it
    -- any more. Who took the lock by SET meanwhile was behind it, so that is not marked.
    local arrival, of = enqueue(ARGV[7], tonumber(ARGV[5])), string.match(state.holder or '', '^([^.:]+)%.')
    heartbeat(ARGV[6], true)
    if of and of ~= locker then
      redis.call('PUBLISH', channel .. of, 'contended ' .. arrival .. ' ' .. state.holder .. ' ' .. KEYS[1])
    end
    fresh = 1
  elseif left and redis.call('EXISTS', KEYS[2]) == 0 then
    redis.call('DEL', KEYS[3]) -- nobody waits any more
  end
  if left and full then
    grant_next(state, now, token, locker, channel) -- for those whom this one may have kept out
  end
end
local waiting = join ~= 'wait' and queue_or_fence and redis.call('ZCARD', KEYS[2]) or 0
local fence = state.since or state.last_fence
local holder = state.holder and fence > 0 and describe_holder(state.holder .. ':' .. digits(fence)) or ''
return {0, ms_until_free(state), now_text, siblings(state), fresh, holder, waiting, all_stay(state), oldest(state)}
