// Empty: the functions of this target take the place of libc's by their names, and nothing calls them through a header.
// The package manager needs a header to make a module.
