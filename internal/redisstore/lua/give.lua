-- give gives back a lock that was taken by SET, if nobody came to wait for it and its
-- fence has passed. It is short because most locks are given back so.
--
-- Parts    none
-- KEYS     lock (see lock.lua)
-- ARGV[1]  what SET wrote: "<token>:~<µs>"
-- ARGV[2]  the fence
-- Result   1 it gave the lock back; 0 it did nothing: the caller then runs release.lua

if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local time = redis.call('TIME')
if time[1] * 1000000 + time[2] <= tonumber(ARGV[2]) then return 0 end
return redis.call('DEL', KEYS[1])
