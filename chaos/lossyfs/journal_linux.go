package lossyfs

import "math/rand/v2"

// journal holds the steps that changed names and are not durable yet, oldest first.
type journal struct {
	steps []*step
}

// step is a set of changes that survives a power loss as a whole or not at all.
type step struct {
	changes []change
}

// longest is the largest number of steps that wait for a sync. Beyond it the older half becomes durable by itself, as
// it would in time on any real file system.
const longest = 512

// append adds a step. It returns the steps that became durable because the journal was full.
func (j *journal) append(changes []change) (durable []*step) {
	for _, c := range changes {
		for _, n := range []*inode{c.old, c.new} {
			if n != nil {
				n.pending++
			}
		}
	}
	j.steps = append(j.steps, &step{changes})
	if len(j.steps) > longest {
		durable = j.steps[:longest/2]
		j.steps = append([]*step(nil), j.steps[longest/2:]...)
	}
	return durable
}

// commit removes and returns the steps that a sync of n makes durable, with all the steps that they rest on.
func (j *journal) commit(n *inode) (durable []*step) {
	if !n.folder() && n.pending == 0 {
		return nil
	}
	wanted := make([]bool, len(j.steps))
	for i := len(j.steps) - 1; i >= 0; i-- {
		wanted[i] = wanted[i] || j.steps[i].concerns(n)
		if wanted[i] {
			j.eachBase(i, func(base int) { wanted[base] = true })
		}
	}
	return j.take(wanted)
}

// lose empties the journal. It returns the steps that a power loss undoes and those that it keeps. A step that rests on
// an undone one is undone, too.
func (j *journal) lose(r *rand.Rand) (undone, kept []*step) {
	chance := r.IntN(5) // out of 4, that a step has got to the disk
	gone := make([]bool, len(j.steps))
	for i := range j.steps {
		gone[i] = r.IntN(4) >= chance
		j.eachBase(i, func(base int) { gone[i] = gone[i] || gone[base] })
	}
	undone = j.take(gone)
	kept, j.steps = j.steps, nil
	return undone, kept
}

func (j *journal) take(which []bool) (taken []*step) {
	var left []*step
	for i, s := range j.steps {
		if which[i] {
			taken = append(taken, s)
		} else {
			left = append(left, s)
		}
	}
	j.steps = left
	return taken
}

// eachBase calls f for each earlier step that step i rests on.
func (j *journal) eachBase(i int, f func(base int)) {
	for base := range i {
		if j.steps[i].restsOn(j.steps[base]) {
			f(base)
		}
	}
}

// concerns reports whether a sync of n makes the step durable: it changed a name in the folder n, or it gave n its
// name.
func (s *step) concerns(n *inode) bool {
	for _, c := range s.changes {
		if c.dir == n || c.new == n {
			return true
		}
	}
	return false
}

// restsOn reports whether s cannot happen without the earlier step b. Moves of folders keep their order, because two of
// them could otherwise put folders into each other.
func (s *step) restsOn(b *step) bool {
	if s.movesFolder() && b.movesFolder() {
		return true
	}
	for _, c := range s.changes {
		for _, d := range b.changes {
			sameName := c.dir == d.dir && c.name == d.name
			madeIn := d.new != nil && d.new == c.dir
			emptied := c.old != nil && c.old == d.dir
			sameThing := c.old != nil && c.old == d.new || c.new != nil && (c.new == d.new || c.new == d.old)
			if sameName || madeIn || emptied || sameThing {
				return true
			}
		}
	}
	return false
}

func (s *step) movesFolder() bool {
	for _, c := range s.changes {
		if c.new != nil && c.new.folder() && len(s.changes) > 1 {
			return true
		}
	}
	return false
}
