-- keep: another deadline, for whoever has his units still.
--   asked    {'keep', id, kind, keep_ms, was_version?, note?}
--   touches  OWNERS, DEADLINES
--   returns  {DONE, whether he was there and had that version}
-- The version is compared and raised in one script. GET, and then a write that trusts what was read,
-- the published mistake, writes over whatever happened in between.

local function keep(op)
  local _, id, kind, keep_ms, was_version, note = unpack(op, 1, 6)
  local record = alive(id)
  if not record or (was_version and was_version ~= record[FENCE]) then
    return { DONE, false }
  end
  local fence = record[FENCE] + (was_version and 1 or 0)
  -- A new record: the old one may be part of a verdict already.
  local kept = { record[BUYER], record[OWN_SEATS], record[OWN_POOLS] }
  kept[KIND], kept[UNTIL], kept[SINCE] = kind, deadline(keep_ms), now
  kept[FENCE], kept[NOTE] = fence, note or record[NOTE]
  write(id, kept)
  return { DONE, true }
end
