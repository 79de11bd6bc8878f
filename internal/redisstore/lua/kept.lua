-- kept tells what lies beside a lock, for whoever looks at many of them. It changes nothing.
--
-- Parts    none
-- KEYS     record (see keep.lua)
-- Result   -1: the intent of work that was begun; 0: nothing, or other data; otherwise the length of an answer

local record = redis.pcall('GET', KEYS[1]) -- it may be other data
if type(record) ~= 'string' then return 0 end
if string.match(record, '^begun %d+ %d+') then return -1 end
return string.match(record, '^%d+ %d+ ') and #record or 0
