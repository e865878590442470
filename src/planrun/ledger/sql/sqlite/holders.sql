SELECT * FROM worker WHERE incarnation IN (SELECT DISTINCT incarnation FROM attempt WHERE stopped = 0);
