// Package top shows a cluster live: in a terminal, as one plain page, or as JSON.
//
//	API ──parts──▶ State ──Summarise──▶ Summary ──render──▶ lines of a Screen
//	                                       └──────────────▶ JSON
//
// The parts of the package:
//   - A part is one call: cluster, wheel, activity or queues. The parts are read independently, so a part that fails
//     or hangs leaves the others fresh. State keeps the last answer of each part and the time since when it is stale.
//   - Summary holds the figures that people and programs read. It depends on State alone.
//   - Screen is the model of the terminal: it takes messages and renders lines. Time comes in with the messages.
//   - Text from the cluster passes through clean before it reaches a terminal: task ids, queue names and errors may
//     hold escape sequences.
//
// # The library
//
// Bubble Tea v2 drives the terminal. It puts the terminal back after a quit, a signal and a panic, follows changes of
// size, and keeps the model free of the terminal, so that a test sends messages and compares lines. It adds about 2 MB
// to the binary. Tables are aligned here: Lip Gloss would be one more dependency for one table.
//
// Why not tview? It has ready tables, but its widgets hold the state, its tests need a simulated screen, and it has no
// plain page for a pipe.
package top
