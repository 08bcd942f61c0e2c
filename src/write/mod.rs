//! Data and delete files, written with everything that readers prune by.
