-- many carries out, for any number of locks, what most questions are: a mutex
-- that is free is taken, or one is given back, and nobody waits for it. Where
-- anything is otherwise it changes nothing, and the question is asked by itself.
-- Half of what a question costs Redis is the way into a script.
--
-- KEYS     lock, queue, fence, alive (see lock.lua) of each lock
-- ARGV     token, and the ms to take it for or '' to give it back, of each
-- Result   {the fence of those that were taken, which is now µs too; a byte for
--          each: 1 it is done, 0 it is not}

local time = redis.call('TIME')
local fence = time[1] .. string.sub(1000000 + time[2], 2)
local now = tonumber(fence)
local done = {}

local function take(token, ms, lock, queue, kept)
  if redis.pcall('EXISTS', queue, kept) ~= 0 then return '0' end
  local set = redis.pcall('SET', lock, token .. ':' .. fence, 'NX', 'PX', ms)
  return set and set.ok and '1' or '0'
end

local function give(token, lock, queue, kept, alive)
  local value = redis.pcall('GET', lock)
  if type(value) ~= 'string' or string.sub(value, 1, #token + 1) ~= token .. ':' then return '0' end
  local last = tonumber(string.sub(value, #token + 2))
  if not last or last >= now or redis.pcall('EXISTS', queue, kept, alive) ~= 0 then return '0' end
  return redis.pcall('DEL', lock) == 1 and '1' or '0'
end

for i = 1, #ARGV / 2 do
  local token, ms, key = ARGV[2 * i - 1], ARGV[2 * i], 4 * i
  if ms ~= '' then
    done[i] = take(token, ms, KEYS[key - 3], KEYS[key - 2], KEYS[key - 1])
  else
    done[i] = give(token, KEYS[key - 3], KEYS[key - 2], KEYS[key - 1], KEYS[key])
  end
end
return {fence, table.concat(done)}
