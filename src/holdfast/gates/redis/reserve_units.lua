-- reserve_units: so many units more for a name, if it may have so many at once.
--   KEYS     as units.lua says
--   ARGV     milliseconds now or ''; name; hold; units; how many the name may have;
--            milliseconds until the deadline, 1 or more
--   returns  1 if they are reserved now, else 0, and what the hold had stays
-- The same hold again replaces what it had, so an ask that comes twice counts once.

local name, hold, units, most, keep_ms = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]),
  tonumber(ARGV[6])

local had_by, had = reserved_by(hold)
local others = tonumber(call('HGET', TOTALS, name) or 0) - (had_by == name and had or 0)
if others + units > most then
  return 0
end

drop(hold)
call('HSET', RESERVED, hold, cmsgpack.pack({ name, units }))
call('ZADD', DUE, digits(now + keep_ms), hold)
call('HINCRBY', TOTALS, name, digits(units))

-- Where nobody comes any more nothing stays.
for _, key in ipairs(KEYS) do
  if call('PTTL', key) < keep_ms + 1000 then
    call('PEXPIRE', key, digits(keep_ms + 1000))
  end
end
return 1
