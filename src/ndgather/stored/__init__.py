"""Arrays that are stored in chunks: gathers and scatters that read each touched chunk once."""
