"""The kernel `flat_update`: flat states get their next values by an expression an element."""
