package siege

import (
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

// Config describes a siege. Binary and Dir must be given, and one of For, Rounds and Round; a soak lasts an hour if
// none is.
type Config struct {
	Binary string   // of belfry
	Dir    string   // data, logs, records, the report
	Args   []string // further ones of every node
	Env    []string // further variables of every node, as NAME=value

	// Snapshots is BELFRY_SNAPSHOTS of every node: after how many bytes of log one is taken, and how many entries are kept
	// behind it. Default a half MiB and 32, so that followers that were away need one; of a soak 2 MiB and 256.
	Snapshots string
	Nodes     int // default 3
	Shards    int // default 3

	Seed   uint64
	For    time.Duration // how long rounds are begun
	Rounds int           // at most; 0: as many as For allows

	// Stop is asked after each round whether it was the last one. Nil: others decide.
	Stop   func(*RoundReport) bool
	Round  int      // only this one; 0: all
	Faults []string // names of groups or kinds that strike, and for which the stage is set; none: all
	Plan   *Plan    // what each round does in place of strikers; nil: they strike. With none of Faults: a plain stage

	Strikers  int           // faults at once; default 3
	Strike    time.Duration // how long they strike in a round; default 40 s
	PerSecond int           // scripts of the load that are begun; default 200
	Bulk      int           // plain tasks a second beside them; default none
	MaxDelay  time.Duration // of a task; default 3 s
	Drain     time.Duration // for everything to come to rest in the end of a round; default 60 s
	Sample    int           // of plainly delivered tasks, and of tasks on single replicas, how many are read; default 3000
	Limits    check.Limits  // zero: those for a machine that does nothing else

	NoNetwork, NoDisks, NoClocks, NoGossip, NoMemory bool // skip the faults of these, and their stage

	Soak bool // load alone for as long as For says, in long rounds; the nodes' vitals must stay flat

	Flags    []string  // of the command that lays this siege, as they belong to the line that replays a round
	Keep     bool      // also the records of rounds that held
	Progress io.Writer // told about every round in a line; nil: nobody
}

func (c Config) withDefaults() (Config, error) {
	if c.Soak && c.Rounds <= 0 && c.Round <= 0 {
		setDefault(&c.For, time.Hour)
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
		setDefault(&c.Strike, 5*time.Minute)
		setDefault(&c.Snapshots, "2097152,256") // with the usual 40 MiB the disk's curve would be three teeth an hour
	}
	setDefault(&c.Snapshots, "524288,32")
	var err error
	if c.Dir, err = filepath.Abs(c.Dir); err != nil {
		return c, err
	}
	setDefault(&c.Nodes, 3)
	setDefault(&c.Shards, 3)
	setDefault(&c.Strikers, 3)
	setDefault(&c.Strike, 40*time.Second)
	setDefault(&c.Drain, time.Minute)
	setDefault(&c.Sample, 3000)
	setDefault(&c.Limits, limits())
	if c.Plan != nil && len(c.Faults) == 0 {
		c.Faults = []string{noFaults}
	}
	if c.Progress == nil {
		c.Progress = io.Discard
	}
	return c, nil
}

// lookEvery is how often the nodes' vitals are taken: some hundred times in a run.
func (c Config) lookEvery() time.Duration {
	return min(max(c.For/400, time.Second), 10*time.Second)
}

// limits are the usual ones, but for a node's start, which here is part of its coming back: several may start at once,
// and beside other faults' load.
func limits() check.Limits {
	l := check.DefaultLimits()
	l.Recover, l.FirstFire = 15*time.Second, 10*time.Second
	return l
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

const (
	allFaults = "all"
	noFaults  = "none"
)

// chosen are the kinds of faults that the names mean. A name that means none is an error.
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
