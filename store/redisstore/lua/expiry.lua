-- Sets expires to the last millisecond of a record that lives for some microseconds from now, and score to its place in
-- the index of pending records. A life of 0 is forever. So is one beyond the year 2286: thirteen digits do not hold it.
local last = (now + life - 1) / 1000
local expires = life ~= '0' and last < 1e13 and format('%d', last) or never
local score = expires == never and '+inf' or expires
