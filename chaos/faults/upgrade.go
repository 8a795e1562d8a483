package faults

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/chaos/stand"
)

// RollingUpgrade is the kind that changes the build of all nodes, one after the other, and then back.
const RollingUpgrade = "rolling upgrade"

// upgradeKinds returns the kinds of group "upgrade". Nodes of two builds form the cluster meanwhile. Each change is a
// fault of one node, so that other faults may strike the other nodes between two changes.
func upgradeKinds() []Kind {
	return []Kind{{
		Name: RollingUpgrade, Group: "upgrade", Weight: 6, Needs: (*stand.Stand).HasOther,
		Strike: func(ctx context.Context, on Target) error {
			s := &striking{Target: on, kind: RollingUpgrade}
			return s.rollingUpgrade(ctx)
		},
	}}
}

// builds is claimed by the rolling upgrade under way, because two could never end.
const builds = "the builds"

// freeFor is how long a rolling upgrade waits for a node that another fault holds.
const freeFor = 15 * time.Second

// rollingUpgrade changes all nodes to the other build, lets them run for a while, and changes them back in another
// order, also after the context has ended. It skips nodes that other faults hold for long. A node that keeps the other
// build in the end gets its own one back when the stand is healed.
func (s *striking) rollingUpgrade(ctx context.Context) error {
	release, ok := s.Stand.Claim(builds)
	if !ok {
		return ErrBusy
	}
	defer release()
	for _, node := range s.some(len(s.Stand.Names())) {
		if err := s.change(ctx, node, true); err != nil {
			return err
		}
	}
	Wait(ctx, s.Hold)
	strays := s.Stand.Strays()
	s.Rand.Shuffle(len(strays), func(i, j int) { strays[i], strays[j] = strays[j], strays[i] })
	for _, node := range strays {
		if err := s.change(context.WithoutCancel(ctx), node, false); err != nil {
			return err
		}
	}
	return nil
}

// change changes the build of a node, and waits until the node is ready. It does nothing after the context has ended.
func (s *striking) change(ctx context.Context, node string, toOther bool) error {
	release, err := s.claim([]string{node})
	for end := time.Now().Add(freeFor); err != nil; release, err = s.claim([]string{node}) {
		if time.Now().After(end) || !Wait(ctx, freeFor/100) {
			return nil
		}
	}
	defer release()
	if ctx.Err() != nil {
		return nil
	}
	build := "its own build"
	if toOther {
		build = "the other build"
	}
	fault := s.strikeDead(ctx, []string{node}, "stopped, and started with %s", build)
	if err := s.Stand.Terminate(node); err != nil {
		return err
	}
	s.Recorder.Mending(fault)
	if err := s.Stand.Change(node, toOther); err != nil {
		return err
	}
	s.Recorder.Mended(fault)
	_ = s.Stand.AwaitReady(ctx, upFor, node) // another fault may keep the node from being ready
	return nil
}
