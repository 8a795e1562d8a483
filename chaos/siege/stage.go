package siege

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/belfryhq/belfry/chaos/faults"
	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/lossyfs"
	"github.com/belfryhq/belfry/chaos/netlab"
	"github.com/belfryhq/belfry/chaos/stand"
	"github.com/belfryhq/belfry/chaos/workload"
)

const dataFolder = "cluster"

// open sets up the part of the stage that the chosen faults need and this machine supports.
func (s *siege) open(ctx context.Context, kinds []faults.Kind) (err error) {
	missing := map[string]error{} // by group
	want := func(group string, off bool, supported func() error) bool {
		if !slices.ContainsFunc(kinds, func(k faults.Kind) bool { return k.Group == group }) {
			return false
		}
		if off {
			missing[group] = fmt.Errorf("switched off")
		} else if err := supported(); err != nil {
			missing[group] = err
		}
		return missing[group] == nil
	}
	always := func() error { return nil }
	other, descriptors := s.otherBuild(kinds), 0
	if want("attack", false, always) {
		descriptors = fewDescriptors
	}
	s.stand, err = stand.Open(ctx, stand.Config{
		Binary: s.cfg.Binary, Dir: filepath.Join(s.cfg.Dir, dataFolder), Nodes: s.cfg.Nodes,
		Spare: s.cfg.Spare, Shards: s.cfg.Shards, Zones: s.cfg.Zones, ReplaceAfter: s.cfg.ReplaceAfter,
		Args: s.cfg.Args, Env: append([]string{"BELFRY_SNAPSHOTS=" + s.cfg.Snapshots}, s.cfg.Env...), Seed: s.cfg.Seed,
		Other: other, Keys: s.cfg.Keys,
		Network: want("network", s.cfg.NoNetwork, netlab.Supported),
		Disks:   want("disk", s.cfg.NoDisks, lossyfs.Supported),
		Clocks:  want("clock", s.cfg.NoClocks, always),
		Gossip:  want("gossip", s.cfg.NoGossip, always),
		Memory:  want("memory", s.cfg.NoMemory, stand.MemorySupported),

		Descriptors: descriptors,
	})
	if err != nil {
		return err
	}
	s.deaths = watchDeaths(s.stand.Cluster)
	unheard := history.NewRecorder(nil) // until the first round
	if s.receiver, err = workload.Listen(ctx, unheard, s.stand.ReceiverHost()); err != nil {
		return err
	}
	s.choose(kinds, missing)
	return nil
}

// fewDescriptors is the number of files that a node under attack may open: enough for the load, and few enough to be
// exhausted.
const fewDescriptors = 4096

// Upgrades reports whether a rolling upgrade can strike in the siege, if it has another build.
func (c Config) Upgrades() bool {
	kinds, err := chosen(c.Faults)
	named := err == nil && slices.ContainsFunc(kinds, func(k faults.Kind) bool { return k.Name == faults.RollingUpgrade })
	return c.drills() || named && !c.all()
}

// otherBuild returns the other build of the stand, or "" if the nodes keep their own. A siege with all faults has it in
// a drill alone, on a stand of its own.
func (s *siege) otherBuild(kinds []faults.Kind) (program string) {
	upgrades := slices.ContainsFunc(kinds, func(k faults.Kind) bool { return k.Name == faults.RollingUpgrade })
	if !upgrades || s.cfg.all() {
		return ""
	}
	return s.cfg.Other
}

// choose keeps the kinds that can strike on this stage and reports the others as skipped.
func (s *siege) choose(kinds []faults.Kind, missing map[string]error) {
	for _, k := range kinds {
		err := missing[k.Group]
		if err == nil && k.Needs != nil {
			err = k.Needs(s.stand)
		}
		switch {
		case errors.Is(err, faults.ErrKeys) && s.cfg.drills():
			continue // the kind strikes in a drill on a stand of its own
		case errors.Is(err, stand.ErrOneBuild) && s.cfg.Other != "" && s.cfg.drills():
			continue // this one, too
		case err != nil:
			s.report.skip(k, err)
			continue
		}
		s.kinds = append(s.kinds, k)
	}
}
