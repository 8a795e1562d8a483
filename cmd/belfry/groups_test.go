package main

import (
	"testing"

	"github.com/spf13/pflag"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/assert"
)

func TestGroupFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "2 of each under way, in turn, acme=3"},
		{[]string{"--group-in-flight", "0", "--fifo"}, "in order, in turn, acme=3"},
		{[]string{"--group-weight", "acme=0,b=4"}, "2 of each under way, in turn, b=4"},
		{[]string{"--fair=false", "--group-weight", "acme=0"}, "2 of each under way"},
	} {
		var f groupFlags
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.addFlags(flags)
		assert.NoError(t, flags.Parse(c.args))
		q := &client.Queue{GroupInFlight: 2, Fair: true, GroupWeights: map[string]int{"acme": 3}}
		if err := f.apply(flags.Changed, q); err != nil || groups(q) != c.want {
			t.Errorf("%q: %q, %v, want %q", c.args, groups(q), err, c.want)
		}
	}
	f := groupFlags{weights: map[string]string{"acme": "many"}}
	err := f.patch(func(string) bool { return false }, &client.QueuePatch{})
	assert.Error(t, err, "a weight that is no number is taken")
}
