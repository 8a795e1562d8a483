package gated

import (
	"bytes"
	"crypto/sha256"
	"os"
	"slices"
	"strings"
	"testing"
)

// SampleVariable is the environment variable whose text chooses the samples of tests with many cases of one kind. The
// gate sets it to the hash of the commit, so that each commit tests other cases.
const SampleVariable = "BELFRY_SAMPLE"

// Sample returns n of the cases, chosen by SampleVariable, or all of them if Variable lists Long. It logs its choice.
func Sample[T ~string](t testing.TB, n int, cases ...T) []T {
	t.Helper()
	sample := os.Getenv(SampleVariable)
	hash := func(c T) []byte {
		sum := sha256.Sum256([]byte(sample + "/" + string(c)))
		return sum[:]
	}
	chosen := slices.SortedFunc(slices.Values(cases), func(a, b T) int { return bytes.Compare(hash(a), hash(b)) })
	if !Has(Long) {
		chosen = chosen[:min(n, len(chosen))]
	}
	slices.Sort(chosen)
	names := make([]string, len(chosen))
	for i, c := range chosen {
		names[i] = string(c)
	}
	t.Logf("%d of %d cases, by %s=%s: %s", len(chosen), len(cases), SampleVariable, sample, strings.Join(names, ", "))
	return chosen
}
