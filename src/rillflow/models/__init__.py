"""Networks, and the numbers they start from; only `models.initial` can do without torch."""
