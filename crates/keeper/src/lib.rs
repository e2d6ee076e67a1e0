//! Parent of every hosted child: holds its pipes, reaps its exit, outlives the daemon.
