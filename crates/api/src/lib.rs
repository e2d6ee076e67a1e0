//! Native types and client: all that the command line links.
