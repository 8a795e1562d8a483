package fsm

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/assert"
)

// keyedCall returns a call that wants the full answer. Its key comes from its verb and line.
func keyedCall(verb, line string) *fsmpb.Command {
	a := arguments(line)
	c := &fsmpb.Command{Id: a.id, Answer: fsmpb.Answer_ANSWER_FULL}
	c.Key = &fsmpb.Key{Hash: hashOf(verb), Call: hashOf(verb + line)}
	setOp(c, verb, a, 1000)
	return c
}

func applyOne(t *testing.T, m *Machine, c *fsmpb.Command) *fsmpb.Result {
	t.Helper()
	data, err := proto.Marshal(&fsmpb.Entry{Version: CommandVersion, AtMs: 1000, Commands: []*fsmpb.Command{c}})
	assert.NoError(t, err)
	return applyBytes(t, m, data).Results[0]
}

// A repeat gets exactly the answer of the first call, however the task has changed since.
func TestRepeatedAnswers(t *testing.T) {
	// retrying takes a task to its second attempt. The first attempt failed with the error in failed.
	const retrying = "takeover origin=5\nschedule a at=900 url=http://x/ payload=p\nadvance to=1000"
	const failed = "settle a verdict=retry retry_at=5000 error=refused"
	for name, c := range map[string]struct{ before, call, after string }{
		"schedule, then another": {
			"takeover origin=5", "schedule a at=2000 url=http://x/ payload=p", "schedule a at=3000 url=http://y/",
		},
		"schedule over another, then another": {
			"takeover origin=5\nschedule a at=2000", "schedule a at=2000 url=http://x/", "schedule a at=3000",
		},
		"touch, then a schedule like it": {
			"takeover origin=5\nschedule a at=2000 delay=10", "touch a delay=100", "schedule a at=3000",
		},
		"touch, then fire": {
			"takeover origin=5\nschedule a at=2000 delay=10", "touch a delay=100", "fire a",
		},
		"patch, then fire": {
			"takeover origin=5\nschedule a at=2000 delay=10", "patch a at=5000", "fire a",
		},
		"fire, then an attempt": {
			"takeover origin=5\nschedule a at=2000 payload=p", "fire a", "advance to=1000",
		},
		"fire between attempts, then an attempt": {
			retrying + "\n" + failed, "fire a", "advance to=1000",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{t: t, m: New(1), now: 1000}
			for _, line := range strings.Split(c.before, "\n") {
				s.block(line)
			}
			verb, rest, _ := strings.Cut(c.call, " ")
			first := applyOne(t, s.m, keyedCall(verb, rest))
			s.block(c.after)
			m := restored(t, s.m)
			again := applyOne(t, m, keyedCall(verb, rest))
			if !again.Repeated {
				t.Error("not taken for a repeat")
			}
			again.Repeated = false
			ignored := protocmp.IgnoreFields(&fsmpb.Task{}, "fence") // no caller sees the fence
			assert.Equal(t, cmp.Diff(first, again, protocmp.Transform(), ignored), "", "(- first, + again)")
		})
	}
}
