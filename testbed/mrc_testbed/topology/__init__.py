"""Pure model of a multi-plane Clos: numbers, names, addresses, uSIDs, paths, EVs, selectors, drawings."""
