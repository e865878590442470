"""Real services on free ports, each in a private folder, that a test may stop, kill and freeze."""
