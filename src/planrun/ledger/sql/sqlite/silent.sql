SELECT incarnation FROM job WHERE state = 'running' AND lease_until_ms <= :stamp_ms;
