// Package flaw names the mistakes that can be seeded into Belfry. They show that the checks of package chaos find such
// mistakes: a checker that never failed has proved nothing.
//
//	build          flaws
//	-tags chaos    the flaw that BELFRY_FLAW names when the process starts
//	without        none: this package then has only Check, so that no other file can refer to a flaw
//
// Each package that can have a flaw keeps it in its flaws_chaos.go. Its flaws.go is the twin of that file in a build
// without the tag: it has the same functions, each of which does nothing and is inlined away. Their names begin with
// "flaw":
//
//	case flawForgetsCancel(m.number):
//
// Some mistakes are too easy to find if they are made every time, so they strike only now and then. Strikes chooses
// the cases by a number that each case has anyway. All replicas then make a mistake in the state machine alike, as
// they would with a real mistake in its code.
//
// The package is below fsm because every package that acts on tasks imports fsm already. Package chaos knows the
// faults that bring each flaw to light, and the number of runs within which they do.
package flaw

// variable is the environment variable that names the flaw of a process.
const variable = "BELFRY_FLAW"
