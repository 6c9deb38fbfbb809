-- adjust: corrects counters by what a snapshot had too much.
--   asked    {'adjust', {{pool, less}...}, {{buyer, less}...}}
--   touches  CLAIMED, UNITS, and whatever the dead have
--   returns  {DONE, true}
-- The dead are swept first, all of them: a counter stops at zero, so it matters who comes first.

local function adjust(op)
  while lapse() do
  end
  for _, pool in ipairs(op[2]) do
    lower(CLAIMED, pool[1], pool[2])
  end
  for _, buyer in ipairs(op[3]) do
    lower(UNITS, buyer[1], buyer[2])
  end
  return { DONE, true }
end
