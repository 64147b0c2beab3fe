"""Programs on a device, whatever it is: its memory, launches, what travels with a call."""
