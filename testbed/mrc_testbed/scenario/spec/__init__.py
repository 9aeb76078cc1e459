"""The content of a Scenario file, and the plan with nothing left open that it resolves to."""
