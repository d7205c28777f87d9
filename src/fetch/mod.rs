//! Fetches what a recipe names, on the host, several at once, into the store.
