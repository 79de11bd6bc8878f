-- rights tells which of some commands the user may not run here, and which the server does
-- not know. It changes nothing, and needs no right of its own.
--
-- Parts    none
-- KEYS     a lock, by which a Cluster finds the node
-- ARGV     commands, their arguments behind blanks
-- Result   {the forbidden ones, the unknown ones}, by their places in ARGV; nothing where
--          the server cannot tell (before Redis 7.0)

local forbidden, unknown = {}, {}
for i, command in ipairs(redis.acl_check_cmd and ARGV or {}) do
  local words = {}
  for word in string.gmatch(command, '%S+') do words[#words + 1] = word end
  local known, allowed = pcall(redis.acl_check_cmd, unpack(words))
  if not known then
    unknown[#unknown + 1] = i
  elseif not allowed then
    forbidden[#forbidden + 1] = i
  end
end
return {forbidden, unknown}
