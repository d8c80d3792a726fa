"""Opening, locking and naming of an atlas's file and of the files beside it, whether of this release or of another."""
