"""Engines run actors: in virtual time (`sim`), in processes (`local`), on a cluster (`ray`)."""
