"""Whether a hook or rule fits an event: patterns, conditions, rules, paths."""
