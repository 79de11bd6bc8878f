-- all takes several locks in one step, or none: each must have room for its
-- token, and nobody may wait for any of them. Asked again with the same tokens
-- it gives the same answer.
--
-- KEYS     lock, queue, alive, fence, holders (see lock.lua) of each lock
-- ARGV[1]  terms (see lock.lua)
-- ARGV[2…] the tokens, one for each lock
-- Result   {1, now µs, fence, …}, or {0}

-- include lock
-- include queue
local every = KEYS
local ttl, kind = parse(ARGV[1])
local now = clock()
local states = {}

local function at(i) KEYS = {unpack(every, 5 * i - 4, 5 * i)} end

for i = 1, #every / 5 do
  at(i)
  local state = standing(now, redis.call('GET', KEYS[1]))
  local fence = state.count and redis.call('ZSCORE', KEYS[5], '=' .. ARGV[i + 1])
  if state.holder == ARGV[i + 1] then
    state.holder, state.fence = nil, state.last > 0 and text(state.last) or nil
  elseif fence then
    state.negated = fence
  elseif redis.call('EXISTS', KEYS[2]) == 1 or not room(state, now, kind) then
    return {0}
  end
  states[i] = state
end

local result = {1, text(now)}
for i, state in ipairs(states) do
  at(i)
  if state.negated then
    result[i + 2] = prolong(state, now, ARGV[i + 1], ttl, kind, state.negated)
  else
    result[i + 2] = hold(state, now, ARGV[i + 1], ttl, kind, state.fence)
  end
end
return result
