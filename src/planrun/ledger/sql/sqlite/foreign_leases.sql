SELECT job_id FROM job WHERE state = 'running' AND clock_epoch IS NOT :epoch;
