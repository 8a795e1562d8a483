// Package flaw holds the mistakes that can be seeded into Belfry, so that what is to find such mistakes can be shown to
// find them: a checker that never turned red has proved nothing.
//
// Only a build with the tag `chaos` can have a flaw, and it has the one that BELFRY_FLAW names when the process starts.
// Without the tag On is a constant false and the compiler drops what depends on it. A flaw is one line at the place
// where somebody could have made the mistake:
//
//	if flaw.StaleRead.On() { … }
//
// Some mistakes are no challenge if they are made every time, and so they strike now and then: Strikes says in which
// cases. It goes by a number that the case has anyhow, so that a mistake in the state machine is made by all replicas
// alike, as a mistake in its code would be.
//
// It is in fsm because every package that acts on tasks knows that one. It leaves to others: which faults bring a flaw
// to light and within how many runs (chaos).
package flaw
