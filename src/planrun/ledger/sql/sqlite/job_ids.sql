SELECT job_id FROM job WHERE job_id >= :prefix AND job_id < :prefix || 'g' ORDER BY job_id LIMIT :limit;
