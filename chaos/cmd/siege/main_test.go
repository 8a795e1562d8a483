package main

import (
	"slices"
	"strings"
	"testing"
)

// What a round is replayed with: all that was given and decides what it does.
func TestFlagsOfAReplay(t *testing.T) {
	given := []string{
		"--for=1h", "--rounds=9", "--seed=7", "--nodes=5", "--shards=12", "--faults=disk", "--dir=/tmp/x", "--keep",
		"--rate=300", "--bulk=0", "--strikers=5", "--strike=1m", "--snapshots=16384,4", "--log-store=boltdb",
		"--no-network", "--no-disks", "--no-clocks", "--no-memory", "--race", "--soak", "--binary=/tmp/belfry",
	}
	want := []string{
		"--rate=300", "--bulk=0", "--strikers=5", "--strike=1m0s", "--snapshots=16384,4", "--log-store=boltdb",
		"--no-network", "--no-disks", "--no-clocks", "--no-memory", "--race", "--soak", "--binary=/tmp/belfry",
	}
	c := command()
	if err := c.ParseFlags(given); err != nil {
		t.Fatal(err)
	}
	got := again(c.Flags())
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	c = command()
	if err := c.ParseFlags([]string{"--seed=7"}); err != nil {
		t.Fatal(err)
	}
	if got := again(c.Flags()); len(got) != 0 {
		t.Errorf("of defaults: %s", strings.Join(got, " "))
	}
}
