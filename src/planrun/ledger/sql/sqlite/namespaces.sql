SELECT DISTINCT namespace FROM tally;
