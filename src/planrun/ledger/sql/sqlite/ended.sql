SELECT state, count(*) AS jobs FROM job WHERE ended_at_ms >= :since_ms GROUP BY state;
