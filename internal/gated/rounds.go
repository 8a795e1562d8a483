package gated

import (
	"flag"
	"strconv"
)

// Rounds sets the number of random cases of each property that a test binary checks with pgregory.net/rapid: few, or
// many if Variable lists Long. The flag -rapid.checks of the command line precedes. TestMain calls Rounds. Each run
// draws other cases, and rapid prints the seed of one that fails.
func Rounds(few, many int) {
	if Has(Long) {
		few = many
	}
	if err := flag.Set("rapid.checks", strconv.Itoa(few)); err != nil {
		panic(err) // the binary does not import rapid
	}
}
