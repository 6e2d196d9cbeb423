"""Models by name: the registry, their options, presets and published settings."""
