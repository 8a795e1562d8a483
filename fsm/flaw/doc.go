// Package flaw names the mistakes that can be seeded into Belfry. A checker that never turned red has proved nothing;
// these show that the checks of package chaos find such mistakes.
//
//	build          flaws
//	-tags chaos    the one that BELFRY_FLAW names when the process starts
//	without        none: this package then has only Check, so that no other file can refer to a flaw
//
// Each package that can have a flaw keeps it in its flaws_chaos.go. Its flaws.go is the twin of that file in a build
// without the tag: the same functions, each of which does nothing and is inlined away. Their names begin with "flaw":
//
//	case flawForgetsCancel(m.number):
//
// Some mistakes are no challenge if they are made every time. They strike now and then: Strikes says in which cases, by
// a number that the case has anyhow. All replicas so make a mistake in the state machine alike, as they would with a
// mistake in its code.
//
// The package is in fsm because every package that acts on tasks knows that one. Package chaos knows which faults bring
// a flaw to light and within how many runs.
package flaw

// variable names the flaw that a process is to have.
const variable = "BELFRY_FLAW"
