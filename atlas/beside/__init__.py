"""Files beside an atlas, a folder each: a record of the kind, its tables, views, questions and audits in SQL, and what keeps it."""
