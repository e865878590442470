"""The house rules, one file each, as tests. They read the tree and finish in seconds."""
