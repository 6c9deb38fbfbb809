-- free_units: a hold's units are nobody's any more. Again does nothing again.
--   KEYS     as units.lua says
--   ARGV     milliseconds now or ''; hold
--   returns  1

drop(ARGV[2])
return 1
