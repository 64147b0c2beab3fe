"""What the machine is and what it can do at best: its processor, caches and limits."""
