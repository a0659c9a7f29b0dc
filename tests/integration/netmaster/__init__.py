"""netmaster as processes and in-process, on a real store."""
