"""A virtual cluster that runs the same strategies and the same planner as training does, on a clock of its own."""
