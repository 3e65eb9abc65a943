-- Sets r to the pending record under the fence. Otherwise the script ends.
--@ read
if bad then return bad end
if not r or sub(r, 6, 6) ~= 'p' or sub(r, 8, 26) ~= fence then return 'lost' end
