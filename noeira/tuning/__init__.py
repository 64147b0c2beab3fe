"""The search for better choices than the rules': candidates timed in the step they belong to."""
