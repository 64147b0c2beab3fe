"""The kernel `depthwise`: convolutions channel by channel."""
