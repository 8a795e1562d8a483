package task

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// Groups and priorities have these limits.
const (
	FirstPriority   = 1
	DefaultPriority = 3
	LastPriority    = 5

	MaxGroupWeights = 1000 // of one queue
	MaxGroupWeight  = 100
)

// PriorityOf returns the priority of a task, FirstPriority to LastPriority. stored is 0 for the default.
func PriorityOf(stored uint32) int { return int(min(cmp.Or(stored, DefaultPriority), LastPriority)) }

// LimitsGroups reports whether a queue's policy limits the attempts of each group.
func LimitsGroups(p *fsmpb.QueuePolicy) bool {
	return p.GetFifo() || p.GetGroupInFlight() > 0 || p.GetGroupPerSecond() > 0
}

// GroupLimit returns the number of attempts of one group that may be under way in the whole cluster; 0: no limit.
func GroupLimit(p *fsmpb.QueuePolicy) int {
	if p.GetFifo() {
		return 1
	}
	return int(p.GetGroupInFlight())
}

// GroupWeight returns the weight of a group beside the other groups of its queue. Only a fair queue has weights.
func GroupWeight(p *fsmpb.QueuePolicy, group string) int {
	if !p.GetFair() {
		return 1
	}
	i, found := slices.BinarySearchFunc(p.GetGroupWeights(), group, func(w *fsmpb.GroupWeight, group string) int {
		return cmp.Compare(w.Group, group)
	})
	if !found {
		return 1
	}
	return int(max(p.GroupWeights[i].Weight, 1))
}

// checkOrder checks the group and the priority of a task.
func checkOrder(s *fsmpb.Spec) *FieldError {
	if s.Group != "" {
		if err := CheckName("group", s.Group); err != nil {
			return err
		}
	}
	if s.Priority > LastPriority {
		return &FieldError{Field: "priority", Detail: fmt.Sprintf("is %d", s.Priority),
			Limit: fmt.Sprintf("%d to %d", FirstPriority, LastPriority)}
	}
	return nil
}

// checkGroups checks how a queue's policy treats groups.
func checkGroups(p *fsmpb.QueuePolicy) *FieldError {
	const field = "group_in_flight"
	switch n := p.GroupInFlight; {
	case n > MaxInFlight:
		return &FieldError{Field: field, Detail: fmt.Sprintf("is %d", n), Limit: fmt.Sprintf("1 to %d", MaxInFlight)}
	case n > 1 && p.Fifo:
		return &FieldError{Field: field, Detail: fmt.Sprintf("is %d", n), Limit: "1 with fifo"}
	}
	if err := checkRate("group_per_second", p.GroupPerSecond); err != nil {
		return err
	}
	return checkWeights(p)
}

func checkWeights(p *fsmpb.QueuePolicy) *FieldError {
	const field = "group_weights"
	switch n := len(p.GroupWeights); {
	case n == 0:
		return nil
	case !p.Fair:
		return &FieldError{Field: field, Detail: "is set in a queue that is not fair", Limit: `"fair": true`}
	case n > MaxGroupWeights:
		return &FieldError{Field: field, Detail: fmt.Sprintf("has %d groups", n), Limit: fmt.Sprint(MaxGroupWeights)}
	}
	for _, w := range p.GroupWeights {
		name := field + "." + w.Group
		if err := CheckName(name, w.Group); err != nil {
			return err
		}
		if w.Weight < 1 || w.Weight > MaxGroupWeight {
			return &FieldError{Field: name, Detail: fmt.Sprintf("is %d", w.Weight),
				Limit: fmt.Sprintf("1 to %d", MaxGroupWeight)}
		}
	}
	return nil
}
