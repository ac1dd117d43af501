"""The protocol class under the S3 and admin planes: guard, deadlines, bodies, the fast lane."""
