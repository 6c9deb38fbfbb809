-- lease: mine if nobody has it, or if I have it already.
--   KEYS[1]  the lease
--   ARGV     the holder; how many milliseconds
--   returns  1 if the holder has it now, else 0
-- Compared and set in one script: GET and then SET lets two holders in.

local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  return 0
end
if tonumber(ARGV[2]) > 0 then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
else
  redis.call('DEL', KEYS[1])
end
return 1
