-- change puts a setting in the place of another one, or takes it away, unless somebody else has changed it meanwhile.
--
-- Parts    none
-- KEYS[1]  the settings of a namespace: a hash, by what they are for
-- ARGV[1]  what the setting is for
-- ARGV[2]  the setting, or '' to take away what is there
-- ARGV[3]  what has to be there, or '' for nothing; without it, whatever is
-- Result   {1: it is there now, or 0: something else was there, what was there before, or ''}

local had = redis.call('HGET', KEYS[1], ARGV[1]) or ''
if ARGV[3] and had ~= ARGV[3] and had ~= ARGV[2] then return {0, had} end
if ARGV[2] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
end
return {1, had}
