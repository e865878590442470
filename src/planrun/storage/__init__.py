"""Result bytes under a key of the attempt's own; never overwritten."""
