package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/belfryhq/belfry/client"
)

// groupFlags describe how a queue treats groups.
type groupFlags struct {
	inFlight   int
	fifo, fair bool
	weights    map[string]string
	clear      bool // of all weights
}

func (f *groupFlags) addFlags(flags *pflag.FlagSet) {
	flags.IntVar(&f.inFlight, "group-in-flight", 0, "most attempts and leases of one group under way")
	flags.BoolVar(&f.fifo, "fifo", false, "one task of a group at a time, in the order of due times")
	flags.BoolVar(&f.fair, "fair", false, "groups take turns by weight")
	flags.Var((*weightsValue)(f), "group-weight",
		"`weight` of a group in a fair queue, as in acme=3; 0 removes it; empty: removes all; repeatable")
}

// apply changes the given parts of a policy.
func (f *groupFlags) apply(given func(flag string) bool, q *client.Queue) error {
	if given("group-in-flight") {
		q.GroupInFlight = f.inFlight
	}
	if given("fifo") {
		q.FIFO = f.fifo
	}
	if given("fair") {
		q.Fair = f.fair
	}
	weights, err := f.readWeights()
	if f.clear {
		q.GroupWeights = nil
	}
	for name, n := range weights {
		if q.GroupWeights == nil {
			q.GroupWeights = map[string]int{}
		}
		q.GroupWeights[name] = n
		if n == 0 {
			delete(q.GroupWeights, name)
		}
	}
	return err
}

// patch adds the given parts to a patch.
func (f *groupFlags) patch(given func(flag string) bool, p *client.QueuePatch) (err error) {
	p.GroupInFlight = f.inFlight
	if given("fifo") {
		p.FIFO = &f.fifo
	}
	if given("fair") {
		p.Fair = &f.fair
	}
	p.GroupWeights, err = f.readWeights()
	switch {
	case !f.clear:
	case len(f.weights) > 0:
		err = errors.New("an empty --group-weight removes all weights; belfry queue set replaces them in one call")
	default:
		p.Clear = append(p.Clear, "group_weights")
	}
	return err
}

// weightsValue is the value of --group-weight.
type weightsValue groupFlags

func (v *weightsValue) String() string { return "" }
func (v *weightsValue) Type() string   { return "weight" }

func (v *weightsValue) Set(text string) error {
	if text == "" {
		v.clear, v.weights = true, nil
		return nil
	}
	for _, pair := range strings.Split(text, ",") {
		name, weight, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return fmt.Errorf("%q is not name=weight", pair)
		}
		if v.weights == nil {
			v.weights = map[string]string{}
		}
		v.weights[name] = weight
	}
	return nil
}

func (f *groupFlags) readWeights() (map[string]int, error) {
	if len(f.weights) == 0 {
		return nil, nil
	}
	weights := map[string]int{}
	for name, text := range f.weights {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("--group-weight %s=%s: the weight is no whole number", name, text)
		}
		weights[name] = n
	}
	return weights, nil
}

// groups describes how a queue treats groups.
func groups(q *client.Queue) string {
	var words []string
	if q.GroupInFlight > 0 {
		words = append(words, fmt.Sprintf("%d of each under way", q.GroupInFlight))
	}
	if q.FIFO {
		words = append(words, "in order")
	}
	if q.Fair {
		words = append(words, "in turn")
	}
	for _, name := range slices.Sorted(maps.Keys(q.GroupWeights)) {
		words = append(words, fmt.Sprintf("%s=%d", name, q.GroupWeights[name]))
	}
	return strings.Join(words, ", ")
}
