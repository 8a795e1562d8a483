// Package flaw holds the mistakes that can be seeded into Belfry, so that what is to find such mistakes can be shown to
// find them: a checker that never turned red has proved nothing.
//
// Only a build with the tag `chaos` can have a flaw, and it has the one that BELFRY_FLAW names when the process starts.
// Without the tag On is a constant false and the compiler drops what depends on it. A flaw is one line at the place
// where somebody could have made the mistake:
//
//	if flaw.ForgottenCancel.On() { … }
//
// It is in fsm because every package that acts on tasks knows that one. It leaves to others: which faults bring a flaw to
// light and within how many runs (chaos/siege).
package flaw
