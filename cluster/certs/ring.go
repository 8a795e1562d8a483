package certs

import (
	"errors"
	"fmt"
)

// Step is one of the three steps by which an authority or a gossip key is replaced.
type Step string

// The steps, in their order.
const (
	Install Step = "install" // the nodes get to know the new one
	Use     Step = "use"     // the nodes use the new one
	Remove  Step = "remove"  // the nodes forget the old one
)

// ParseStep reads a step.
func ParseStep(text string) (Step, error) {
	switch s := Step(text); s {
	case Install, Use, Remove:
		return s, nil
	}
	return "", fmt.Errorf("%q is not %s, %s or %s", text, Install, Use, Remove)
}

// ring holds the value in use, and a second one while a rotation is under way.
type ring[T any] struct {
	used  T
	other *T   // after Install the next value, after Use the former one; nil: no rotation is under way
	step  Step // the last step; empty if no rotation is under way
}

// all returns the values that nodes know, the one in use first.
func (r *ring[T]) all() []T {
	if r.other == nil {
		return []T{r.used}
	}
	return []T{r.used, *r.other}
}

// next returns the step that comes next.
func (r *ring[T]) next() Step {
	switch r.step {
	case Install:
		return Use
	case Use:
		return Remove
	}
	return Install
}

// errOrder is the error of a step out of order.
var errOrder = errors.New("the steps have an order")

// advance makes a step, and reports whether it changed anything: a step that was made already does not. fresh returns
// a new value.
func (r *ring[T]) advance(step Step, fresh func() (T, error)) (changed bool, err error) {
	switch {
	case step == r.step, step == Remove && r.step == "":
		return false, nil
	case step != r.next():
		return false, fmt.Errorf("%w: %s is next, not %s", errOrder, r.next(), step)
	case step == Install:
		value, err := fresh()
		if err != nil {
			return false, err
		}
		r.other, r.step = &value, Install
	case step == Use:
		former := r.used
		r.used, r.other, r.step = *r.other, &former, Use
	case step == Remove:
		r.other, r.step = nil, ""
	}
	return true, nil
}
