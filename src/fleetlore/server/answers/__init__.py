"""Builds the responses of the API's views: from view states and the log to the types in `server/types/`."""
