"""Cost models of published methods that nothing here runs yet, one file each; the folder is scanned."""
