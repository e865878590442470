SELECT state, sum(jobs) AS jobs FROM counted WHERE :namespace IS NULL OR namespace = :namespace GROUP BY state;
