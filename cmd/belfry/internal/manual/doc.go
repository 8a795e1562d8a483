// Package manual writes the commands as manual pages of section 1, and as one Markdown page.
//
//	commands ──PageOf──▶ Page ──Roff──▶ belfry-task-get.1
//	                      └─────Markdown──▶ command-line.md
//
// The same commands give the same bytes: a page has no date, except for one that the caller gives.
//
// Why not cobra/doc? It makes Markdown first and roff of that, with a page's inherited flags apart from its own and no
// section on the environment. Its three packages would become part of the binary.
package manual
