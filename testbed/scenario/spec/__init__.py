"""What a Scenario file says, and the plan with nothing left open that it resolves to."""
