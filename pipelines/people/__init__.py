"""What a person can look at: portraits of users, the feature tree, and how different the people are."""
