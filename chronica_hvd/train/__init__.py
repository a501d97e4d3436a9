"""Real training: torch and Horovod carry out what the planner decides."""
