//go:build next

package store

// Version is one above the version of the other builds, for tests of an upgrade.
const Version = 2
