-- rule: a document with positions has text, and metadata are JSON objects
SELECT
    d.document_id,
    d.name
FROM document AS d
WHERE
    json_type(d.metadata) <> 'OBJECT'
    OR (trim(d.text) = '' AND d.document_id IN (SELECT s.document_id FROM sequence AS s));
