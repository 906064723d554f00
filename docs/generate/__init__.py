"""What the documentation takes from the code itself: reference pages, tables, pictures."""
