//! The MCP door: commands that a person decides, offered to a model over stdio.
