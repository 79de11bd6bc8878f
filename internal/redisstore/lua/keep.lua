-- keep keeps the answer of the work under a lock, if the token has the lock, or if the work was noted as begun and nobody has said
-- since what became of it. The script behind this one gives the lock back: release.lua or releaseto.lua (scripts.go).
--
-- KEYS     those of that script, and the record:
--          KEYS[6] record  string "<made µs> <until µs> <fingerprint> <data>": who had come before
--                          the one, and whoever comes before the other, is answered; or of work that was begun,
--                          "begun <id> <since µs> <fingerprint> <µs for which its answer is to answer whoever comes> <how it
--                          is to be read>" (recall.lua)
-- ARGV     1 to 7 as that script
-- ARGV[8]  µs for which the record answers whoever comes
-- ARGV[9]  ms for which it lies there
-- ARGV[10] '<fingerprint> <data>'; or '': there is no answer, and the work is as if it had not begun
-- ARGV[11] the work's id, if it was noted as begun, or ''
-- Result   that of the script behind it: 0 says that the token did not have the lock

-- include made
do
  local token, value = ARGV[1], redis.call('GET', KEYS[1])
  local own = value and (value == token or string.sub(value, 1, #token + 1) == token .. ':')
  local begun = ARGV[11] ~= '' and string.match(redis.call('GET', KEYS[6]) or '', '^begun (%d+) ') == ARGV[11]
  local keeps = ARGV[10] ~= '' and (own or begun)
  if keeps or begun then
    redis.call('EXISTS', KEYS[1], KEYS[1] .. ':none') -- before the first write, see refuse_while_moving
  end
  if keeps then
    redis.call('SET', KEYS[6], made_now(ARGV[8]) .. ARGV[10], 'PX', ARGV[9])
  elseif begun then
    redis.call('DEL', KEYS[6])
  end
end

