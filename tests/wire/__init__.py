"""What goes to bytes and comes back: packets, controls and snapshots."""
