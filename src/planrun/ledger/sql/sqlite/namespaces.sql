SELECT DISTINCT namespace FROM counted;
