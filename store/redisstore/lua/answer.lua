-- stamp is now, in 16 digits.
local function stamp() return time[1] .. sub('00000' .. time[2], -6) end

-- answer is what Go reads a record from: a letter that says what it is, the time, and the record.
local function answer(letter, r) return letter .. stamp() .. r end
