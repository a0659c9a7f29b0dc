"""What a leader answers from during its term, for handlers of any version of the API."""
