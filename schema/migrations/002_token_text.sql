-- change: bytes of a token that are no whole character show as ⟨F0 9F⟩, and no longer as U+FFFD
-- due: FROM token WHERE contains(text, chr(65533)) AND try(decode(bytes)) IS NULL AND bytes IS NOT NULL LIMIT 1
UPDATE token
SET
    text = concat(
        split_part(text, chr(65533), 1),
        '⟨',
        rtrim(regexp_replace(substr(
            hex(bytes),
            1 + 2 * octet_length(encode(split_part(text, chr(65533), 1))),
            2 * (octet_length(bytes) - octet_length(encode(split_part(text, chr(65533), 1))) - octet_length(encode(split_part(text, chr(65533), -1))))
        ), '(..)', '\1 ', 'g')),
        '⟩',
        split_part(text, chr(65533), -1)
    )
WHERE contains(text, chr(65533)) AND try(decode(bytes)) IS NULL AND bytes IS NOT NULL;
