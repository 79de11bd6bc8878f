-- resolve says what became of work that was begun under a lock, and of which nobody knows more.
--
-- KEYS     as keep
-- ARGV     1 to 4 as 8 to 11 of keep
-- Result   1: done; 0: no such work was begun, or it has an answer; 2: somebody has the lock, and may be at work

-- include made
if string.match(redis.call('GET', KEYS[6]) or '', '^begun (%d+) ') ~= ARGV[4] then return 0 end
if redis.call('EXISTS', KEYS[1]) == 1 then return 2 end
redis.call('EXISTS', KEYS[1], KEYS[1] .. ':none') -- before the first write, see refuse_while_moving
if ARGV[3] == '' then
  redis.call('DEL', KEYS[6])
else
  redis.call('SET', KEYS[6], made_now(ARGV[1]) .. ARGV[3], 'PX', ARGV[2])
end
return 1
