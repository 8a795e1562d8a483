// Package gated skips the tests that `go test ./...` does not run. That command needs only Go, judges no real time, and
// ends within minutes beside a busy machine. Every other test names its kind, and runs if the variable BELFRY_TESTS
// lists the kind: BELFRY_TESTS=real,timed go test ./cmd/belfry. The steps of .ci/run and `make nightly` set it.
//
// A test that skips prints "NOT TESTED: " and the reason. A step that has asked for the kind fails or counts as skipped
// when it sees this text.
package gated

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Variable is the environment variable that lists the kinds of tests to run, separated by commas.
const Variable = "BELFRY_TESTS"

// Kind is a reason why `go test ./...` leaves a test out.
type Kind string

// The kinds of tests.
const (
	Root  Kind = "root"  // needs root and the kernel's help: makes networks and mounts, and needs the machine for itself
	Real  Kind = "real"  // starts nodes in processes of their own, or needs many seconds of real time
	Timed Kind = "timed" // judges real time: runs with nothing beside it
	Long  Kind = "long"  // the long form of a test: more rounds, minutes in place of seconds
)

var kinds = []Kind{Root, Real, Timed, Long}

// Has reports whether the variable lists the kind.
func Has(kind Kind) bool { return slices.Contains(listed(), kind) }

// listed returns the kinds in the variable. It panics at a word that is no kind: a step with a typo would skip its
// tests.
func listed() []Kind {
	var list []Kind
	for word := range strings.SplitSeq(os.Getenv(Variable), ",") {
		kind := Kind(strings.TrimSpace(word))
		if kind == "" {
			continue
		}
		if !slices.Contains(kinds, kind) {
			panic(fmt.Sprintf("%s: %q is no kind of tests: %v", Variable, kind, kinds))
		}
		list = append(list, kind)
	}
	return list
}

// Need skips a test of this kind unless the variable lists the kind.
func Need(t testing.TB, kind Kind) {
	t.Helper()
	if !Has(kind) {
		t.Skipf("NOT TESTED: a %s test (%s=%s runs it)", kind, Variable, kind)
	}
}

// NeedRoot skips a test of the kind Root unless the variable lists Root and supported returns no error.
func NeedRoot(t testing.TB, supported func() error) {
	t.Helper()
	Need(t, Root)
	if err := supported(); err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
}
