"""What ``chronica run`` puts round each rank so that its end can be told. Needs the standard library alone."""
