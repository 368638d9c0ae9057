"""The user's pictures: listing, decoding, caching and summarising them."""
