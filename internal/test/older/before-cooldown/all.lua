-- all takes several locks in one step, or none: each must admit its
-- token, and nobody may wait for any of them. Asked again with the same tokens
-- it gives the same answer.
--
-- Parts    lock, queue (joined where the include lines stand, see scripts.go)
-- KEYS     lock, queue, processes, fence, holders (see lock.lua) of each lock
-- ARGV[1]  terms (see lock.lua)
-- ARGV[2…] the tokens, one for each lock
-- Result   {1, now µs, fence, …}, or {0}

-- include lock
-- include queue
local every = KEYS
local ttl, kind = parse_terms(ARGV[1])
local now = clock()
local states = {}

local function at(i) KEYS = {unpack(every, 5 * i - 4, 5 * i)} end

for i = 1, #every / 5 do
  at(i)
  local state = read_state(now, redis.call('GET', KEYS[1]))
  local fence = state.count and redis.call('ZSCORE', KEYS[5], '=' .. ARGV[i + 1])
  if state.holder == ARGV[i + 1] then
    state.holder, state.fence = nil, state.last_fence > 0 and digits(state.last_fence) or nil
  elseif fence then
    state.negated_fence = fence
  elseif redis.call('EXISTS', KEYS[2]) == 1 or not admits(state, now, kind) then
    return {0}
  end
  states[i] = state
end

local result = {1, digits(now)}
for i, state in ipairs(states) do
  at(i)
  if state.negated_fence then
    result[i + 2] = renew_shared(state, now, ARGV[i + 1], ttl, kind, state.negated_fence)
  else
    result[i + 2] = grant(state, now, ARGV[i + 1], ttl, kind, state.fence)
  end
end
return result
