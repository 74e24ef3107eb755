"""Arrays of other libraries: each module or package adapts one, and is imported when it is met."""
