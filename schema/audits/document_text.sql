-- rule: no document is without text, and metadata are JSON objects
SELECT
    d.document_id,
    d.name
FROM document AS d
WHERE trim(d.text) = '' OR json_type(d.metadata) <> 'OBJECT';
