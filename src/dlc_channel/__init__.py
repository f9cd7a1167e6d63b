"""One authenticated connection between the hosts of a job: protocol dlc/2. Imports the standard library alone."""
