"""What an operator may set, validated once, and the secrets that a first start makes."""
