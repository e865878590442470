SELECT incarnation, count(*) AS jobs FROM job WHERE state = 'running' GROUP BY incarnation;
