"""Private services for tests, the demo of a fleet, and trying things out: free ports, folders of their own."""
