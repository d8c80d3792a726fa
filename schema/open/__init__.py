"""Opening, locking and naming of an atlas's file and of those beside it, of this release and of others."""
