package fsm

import (
	"strings"
	"testing"

	"github.com/belfryhq/belfry/fsm/slab"
)

// A task that nobody has called since has one blob, key included, also after a restore; what moves its instant, or
// brings more keys than are remembered, writes the key out, and the state hash says the same either way.
func TestFirstKeyIsInTheColdBlob(t *testing.T) {
	const retrying = "takeover\nschedule a at=900 url=http://x/\nadvance to=1000\nsettle a verdict=retry retry_at=5000"
	for name, c := range map[string]struct {
		calls string
		first bool // its first key is in the cold blob after them
		keys  bool // there is a second blob
	}{
		"scheduled":                {"schedule a at=2000 payload=p", true, false},
		"scheduled with a delay":   {"schedule a at=2000 delay=10", true, false},
		"made by a touch":          {"touch a delay=100 or_schedule=2000", true, false},
		"cancelled":                {"schedule a at=2000\ncancel a", true, true},
		"touched":                  {"schedule a at=2000 delay=10\ntouch a delay=100", false, true},
		"fired before its time":    {"schedule a at=2000\nfire a", false, true},
		"patched":                  {"schedule a at=2000\npatch a at=5000", false, true},
		"scheduled anew":           {"schedule a at=2000\nschedule a at=3000 payload=p", false, true},
		"cancelled again":          {"schedule a at=2000\ncancel a\ncancel a x=1", true, true},
		"more than are remembered": {retrying + "\nfire a\nfire a x=1", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{t: t, m: New(1), now: 1000}
			for _, line := range strings.Split(c.calls, "\n") {
				verb, rest, _ := strings.Cut(line, " ")
				switch verb {
				case "takeover", "advance", "settle":
					s.block(line)
					continue
				}
				call := keyedCall(verb, rest)
				call.Key.Hash = hashOf(line)
				applyOne(t, s.m, call)
			}
			for _, m := range []*Machine{s.m, restored(t, s.m)} {
				audit(t, m)
				r := m.tasks.Read(m.find("", "a"))
				if first, keys := m.headOf(r).first.kept, r.keys != slab.Ref(0); first != c.first || keys != c.keys {
					t.Errorf("first key in the cold blob: %v, other keys: %v", first, keys)
				}
			}
		})
	}
}
