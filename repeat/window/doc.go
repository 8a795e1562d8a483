// Package window tells when a send window is open: daily hours in a time zone, on the days that a calendar leaves open.
//
//	New            checks the hours, the days and the zone
//	Window.Opens   the first instant at which the window is open
//
// A window that names a calendar is open while both are. A calendar with hours of its own narrows the window.
//
// # Why not
//
//   - A calendar in place of a window: a task's window is small and its own, while a calendar is shared by name.
package window
