package siege

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/faults"
)

// Config describes a siege. Binary, Dir and one of For, Rounds and Round must be given. A soak with none of these three
// lasts an hour.
type Config struct {
	Binary string   // path of the belfry program
	Other  string   // path of a newer build, for the faults of group "upgrade"; empty: none
	Dir    string   // folder for data, logs, records and the report
	Args   []string // further arguments of every node
	Env    []string // further variables of every node, as NAME=value

	// Snapshots is BELFRY_SNAPSHOTS of every node: the bytes of log after which a node takes a snapshot, and the number of
	// entries that it keeps behind the snapshot. The default is 512 KiB and 32, so that followers that were away need a
	// snapshot. The default of a soak is 2 MiB and 256.
	Snapshots string
	Nodes     int // default 3
	Spare     int // further nodes, which join and leave by the faults of group "shape"; default none
	Shards    int // default 3
	Zones     int // over which the nodes are spread evenly; default: each node is a zone of its own

	// ReplaceAfter is the time after which others make the replicas of an absent node anew; default: the nodes' default.
	ReplaceAfter time.Duration

	Seed   uint64
	For    time.Duration // time within which rounds begin
	Rounds int           // most rounds; 0: as many as For allows

	// Stop reports after each round whether the siege ends. Nil: For and Rounds alone end the siege.
	Stop   func(*RoundReport) bool
	Round  int      // the only round to play; 0: all
	Faults []string // groups or kinds of faults that strike and that the stage must support; none: all
	Plan   *Plan    // replaces the strikers of each round; nil: they strike. Without Faults: a plain stage

	Strikers  int           // number of faults at once; default 3
	Strike    time.Duration // time of the strikers in each round; default 40 s, of a soak 5 min
	PerSecond int           // scripts that the load begins each second; default 200
	Bulk      int           // plain tasks a second beside the scripts; default none
	MaxDelay  time.Duration // longest delay of a task; default 3 s
	Plain     bool          // an even load without bursts, held answers and hot ids (workload.Config)
	Drain     time.Duration // time for every task to come to rest at the end of a round; default 60 s
	Kept      time.Duration // how long finished tasks can be read, longer than a round; default 10 min, of the bulk less
	Sample    int           // tasks to read, of the plainly delivered ones and of those on single replicas; default 3000
	Limits    check.Limits  // zero: the limits for a machine without other work

	// Keys demands keys of all calls, which are rotated and revoked meanwhile, and plays half of the load in a second
	// namespace. A stand with an older build has no keys.
	Keys bool

	NoNetwork, NoDisks, NoClocks, NoGossip, NoMemory bool // skip these faults and their stage

	Soak bool // load without faults for the time of For, in long rounds; the nodes' vitals must stay flat

	Flags    []string  // flags of the command that belong to the command line that replays a round
	Keep     bool      // keep the records of rounds that held, too
	Progress io.Writer // gets a line about each round; nil: none
}

func (c Config) withDefaults() (Config, error) {
	if c.Soak && c.Rounds <= 0 && c.Round <= 0 {
		c.For = cmp.Or(c.For, time.Hour)
	}
	switch {
	case c.Binary == "" || c.Dir == "":
		return c, errors.New("siege: Binary and Dir must be given")
	case c.For <= 0 && c.Rounds <= 0 && c.Round <= 0:
		return c, errors.New("siege: one of For, Rounds and Round must be given")
	}
	if c.Soak {
		c.Faults = []string{noFaults}
		c.NoNetwork, c.NoDisks, c.NoClocks, c.NoGossip, c.NoMemory = true, true, true, true, true
		c.Strike = cmp.Or(c.Strike, 5*time.Minute)
		// With the usual 40 MiB, the disk's curve would have three teeth an hour.
		c.Snapshots = cmp.Or(c.Snapshots, "2097152,256")
	}
	c.Snapshots = cmp.Or(c.Snapshots, "524288,32")
	var err error
	if c.Dir, err = filepath.Abs(c.Dir); err != nil {
		return c, err
	}
	c.Nodes = cmp.Or(c.Nodes, 3)
	c.Shards = cmp.Or(c.Shards, 3)
	c.Strikers = cmp.Or(c.Strikers, 3)
	c.Strike = cmp.Or(c.Strike, 40*time.Second)
	c.Drain = cmp.Or(c.Drain, time.Minute)
	c.Sample = cmp.Or(c.Sample, 3000)
	c.Limits = cmp.Or(c.Limits, limits())
	if c.Plan != nil && len(c.Faults) == 0 {
		c.Faults = []string{noFaults}
	}
	if c.Progress == nil {
		c.Progress = io.Discard
	}
	return c, nil
}

// usuallyKept is how long a queue without a policy keeps finished tasks.
const usuallyKept = 10 * time.Minute

// bulkKept is how long finished tasks of the bulk can be read. Without Kept it is short, but longer than the drill,
// which plays each fault once: a node that starts reads mostly finished tasks if they are kept for longer.
func (c Config) bulkKept() time.Duration {
	if c.Kept > 0 {
		return c.Kept
	}
	return c.Strike + 5*c.Drain
}

// kept is how long all finished tasks can be read.
func (c Config) kept() time.Duration {
	switch {
	case c.Kept > 0:
		return c.Kept
	case c.Bulk > 0:
		return min(usuallyKept, c.bulkKept())
	}
	return usuallyKept
}

// lookEvery is the interval at which the nodes' vitals are taken. It gives some hundred samples a run.
func (c Config) lookEvery() time.Duration {
	return min(max(c.For/400, time.Second), 10*time.Second)
}

// limits returns the usual limits with longer ones for the start of a node. A start here is part of the node's return
// after a fault: several nodes may start at once, beside the load of other faults.
func limits() check.Limits {
	l := check.DefaultLimits()
	l.Recover, l.FirstFire = 15*time.Second, 10*time.Second
	return l
}

const (
	allFaults = "all"
	noFaults  = "none"
)

// chosen returns the kinds of faults that the names select. It returns an error for a name that selects none.
func chosen(names []string) ([]faults.Kind, error) {
	all := faults.Kinds()
	if slices.Equal(names, []string{noFaults}) {
		return nil, nil
	}
	if len(names) == 0 || slices.Contains(names, allFaults) {
		return all, nil
	}
	var kinds []faults.Kind
	for _, k := range all {
		if slices.Contains(names, k.Group) || slices.Contains(names, k.Name) {
			kinds = append(kinds, k)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(kinds, func(k faults.Kind) bool { return k.Group == name || k.Name == name }) {
			return nil, fmt.Errorf("siege: there are no faults %q; there are: %s", name, strings.Join(groups(all), ", "))
		}
	}
	return kinds, nil
}

func groups(kinds []faults.Kind) []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.Group)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
