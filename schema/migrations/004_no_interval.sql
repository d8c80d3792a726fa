-- change: where documents are too few there is no interval, and its ends are null
-- due: FROM duckdb_columns() WHERE database_name = current_database() AND table_name LIKE '%probe' AND column_name = 'accuracy_low' AND NOT is_nullable
ALTER TABLE IF EXISTS probe ALTER COLUMN accuracy_low DROP NOT NULL;

ALTER TABLE IF EXISTS probe ALTER COLUMN accuracy_high DROP NOT NULL;

ALTER TABLE IF EXISTS tree_probe ALTER COLUMN accuracy_low DROP NOT NULL;

ALTER TABLE IF EXISTS tree_probe ALTER COLUMN accuracy_high DROP NOT NULL;
