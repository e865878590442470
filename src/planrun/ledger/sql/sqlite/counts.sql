SELECT state, sum(jobs) AS jobs FROM tally WHERE :namespace IS NULL OR namespace = :namespace GROUP BY state;
