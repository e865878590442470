SELECT state, count(*) AS jobs FROM job WHERE :namespace IS NULL OR namespace = :namespace GROUP BY state;
