"""The admin REST API, served by the control process."""
