"""Job processes: what job code gets, says and leaves behind."""
