"""What opens, locks and names the file of an atlas and those beside it, of this release and of others."""
