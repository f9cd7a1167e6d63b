"""Values and errors that every room uses. Imports no other room."""
