-- rule: keys and values that were looked at are neurons of the model
SELECT
    a.annotation_id,
    a.subject,
    a.layer,
    a.item
FROM annotations.annotation AS a
CROSS JOIN model AS m
WHERE a.subject IN ('key', 'value') AND a.item NOT BETWEEN 0 AND m.d_ffn - 1;
