package httpapi

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
)

// weights reads the weights of groups, an object. A merge patch adds them to the present ones, and a null removes one.
// The whole policy is checked afterwards, so a patch may add groups before it removes others; the bound here limits the
// work that a body can ask for.
func (d *policyDraft) weights(r *contract.Reader, field string) (all []*fsmpb.GroupWeight, err error) {
	if d.patch != nil {
		all = slices.Clone(d.policy.GroupWeights)
	}
	seen := map[string]bool{}
	err = r.Each(field, func(raw []byte) error {
		name, full := string(raw), field+"."+contract.Clip(string(raw))
		if seen[name] {
			return contract.Twice(full)
		}
		seen[name] = true
		var weight uint32
		if err := contract.Whole(&weight, 1, task.MaxGroupWeight)(r, full, d.patch != nil); err != nil {
			return err
		}
		if all = setWeight(all, name, weight); len(all) > 2*task.MaxGroupWeights {
			return &task.FieldError{Field: field, Detail: "has too many groups", Limit: fmt.Sprint(task.MaxGroupWeights)}
		}
		return nil
	})
	return all, err
}

// setWeight sets the weight of a group in a list sorted by group; 0 removes it.
func setWeight(list []*fsmpb.GroupWeight, group string, weight uint32) []*fsmpb.GroupWeight {
	i, found := slices.BinarySearchFunc(list, group, func(w *fsmpb.GroupWeight, group string) int {
		return cmp.Compare(w.Group, group)
	})
	if found {
		list = slices.Delete(list, i, i+1)
	}
	if weight == 0 {
		return list
	}
	return slices.Insert(list, i, &fsmpb.GroupWeight{Group: group, Weight: weight})
}

// appendGroups appends how a queue treats groups.
func appendGroups(b []byte, p *fsmpb.QueuePolicy) []byte {
	b = appendCount(b, contract.GroupInFlight, p.GetGroupInFlight())
	if p.GetFifo() {
		b = contract.AppendBool(b, contract.FIFO, true)
	}
	if p.GetFair() {
		b = contract.AppendBool(b, contract.Fair, true)
	}
	if len(p.GetGroupWeights()) == 0 {
		return b
	}
	b = append(contract.AppendName(b, contract.GroupWeights), '{')
	for i, w := range p.GroupWeights {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(contract.AppendString(b, w.Group), ':')
		b = strconv.AppendUint(b, uint64(w.Weight), 10)
	}
	return append(b, '}')
}
