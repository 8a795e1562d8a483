//go:build !chaos

package shard

import (
	"context"

	"github.com/belfryhq/belfry/fsm"
)

// This build has no seeded flaws; see package flaw.

func flawReadsStale() bool { return false }

func flawRefusesTransfer() bool { return false }

func flawBlinds(*Config) {}

func flawForgetsGroups([]GroupsCount) {}

func (p *proposer) commit(ctx context.Context, e *entry) (applied, error) { return p.propose(ctx, e) }

func (f *firing) machine() *fsm.Machine { return f.shard.machine }
