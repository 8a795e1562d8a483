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

// group reads the name of a group.
func group(r *contract.Reader) (string, error) {
	name, err := r.Text(contract.Group.String())
	if err != nil {
		return "", err
	}
	if err := task.CheckName(contract.Group.String(), name); err != nil {
		return "", err
	}
	return name, nil
}

// priority reads a priority. The default one reads as 0, so that a task for which it was sent is like one without.
func priority(r *contract.Reader) (uint32, error) {
	n, err := r.Whole(contract.Priority.String(), task.FirstPriority, task.LastPriority)
	if n == task.DefaultPriority {
		n = 0
	}
	return uint32(n), err
}

// weights reads the weights of groups, an object. A merge patch adds them to the present ones, and a null removes one.
// The whole policy is checked afterwards, so a patch may add groups before it removes others; the bound here limits the
// work that a body can ask for.
func (d *policyDraft) weights(r *contract.Reader) ([]*fsmpb.GroupWeight, error) {
	var all []*fsmpb.GroupWeight
	if d.merged {
		all = slices.Clone(d.policy.GroupWeights)
	}
	field := contract.GroupWeights.String()
	err := r.EachOnce(field, field+".", func(name, full string) (known bool, err error) {
		if d.merged && r.Null() {
			all = setWeight(all, name, 0)
			return true, nil
		}
		weight, err := r.Whole(full, 1, task.MaxGroupWeight)
		all = setWeight(all, name, uint32(weight))
		if err == nil && len(all) > 2*task.MaxGroupWeights {
			err = &task.FieldError{Field: field, Detail: "has too many groups", Limit: fmt.Sprint(task.MaxGroupWeights)}
		}
		return true, err
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

// appendOrder appends the group and the priority of a task, unless they are the default ones.
func appendOrder(b []byte, spec *fsmpb.Spec) []byte {
	b = contract.AppendTextIf(b, contract.Group, spec.GetGroup())
	if n := spec.GetPriority(); n != 0 && n != task.DefaultPriority {
		b = contract.AppendUint(b, contract.Priority, uint64(n))
	}
	return b
}

// appendGroups appends how a queue treats groups.
func appendGroups(b []byte, p *fsmpb.QueuePolicy) []byte {
	if n := p.GetGroupInFlight(); n > 0 {
		b = contract.AppendUint(b, contract.GroupInFlight, uint64(n))
	}
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
