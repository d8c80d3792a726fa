"""Kinds of files beside an atlas, one folder for each: a record of the kind, its tables, views, questions and audits in SQL, and the code that changes it."""
