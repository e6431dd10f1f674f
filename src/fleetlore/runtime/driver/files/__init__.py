"""Goals as people write them: TOML and YAML."""
