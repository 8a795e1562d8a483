package repeating

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/contract"
)

var now = time.Date(2026, 11, 20, 10, 0, 0, 250_000, time.UTC)

// read reads a rule into a copy of m.
func read(text string, m *fsmpb.Repeat, merged bool) (*fsmpb.Repeat, error) {
	m = proto.CloneOf(m)
	return m, Member(m, now)(contract.NewReader([]byte(text)), "repeat", merged)
}

func TestRead(t *testing.T) {
	got, err := read(`{"cron":["@daily"],"every":"1.5ms","anchor":"1970-01-01T00:00:00Z","time_zone":"Europe/Berlin",
		"start":"2026-11-20T10:00:00Z","end":"2026-11-20T10:00:00.0001Z","count":3,"except":["2026-12-25"],"jitter":"1ns"}`,
		new(fsmpb.Repeat), false)
	if err == nil || err.Error() != "repeat.every: is too short (limit 100ms to 100 years (36500d))" {
		t.Errorf("%v (%v)", got, err)
	}
	got, err = read(`{"cron":["@daily"],"every":"100.5ms","anchor":"1970-01-01T00:00:00Z","time_zone":"Europe/Berlin",
		"start":"2026-11-20T10:00:00Z","end":"2026-11-20T10:00:00.0001Z","count":3,"except":["2026-12-25"],"jitter":"1ns"}`,
		new(fsmpb.Repeat), false)
	want := &fsmpb.Repeat{
		Cron: []string{"@daily"}, EveryMs: 101, AnchorMs: proto.Int64(0), TimeZone: "Europe/Berlin",
		StartMs: proto.Int64(1795168800000), EndMs: proto.Int64(1795168800001), Count: 3, Except: []string{"2026-12-25"},
		JitterMs: 1,
	}
	if err != nil || !proto.Equal(got, want) {
		t.Errorf("%v (%v)", got, err)
	}
	for name, want := range map[string]*fsmpb.Repeat{
		`{"time_zone":"UTC","jitter":"0s"}`: {}, // the defaults
		`{"jitter":"24h"}`:                  {JitterMs: MaxJitter.Milliseconds()},
	} {
		if got, err := read(name, new(fsmpb.Repeat), false); err != nil || !proto.Equal(got, want) {
			t.Errorf("%s: %v (%v)", name, got, err)
		}
	}
}

// A merge patch leaves what it does not name, and a null restores the default. The anchor goes with its interval.
func TestReadMergePatch(t *testing.T) {
	every := &fsmpb.Repeat{EveryMs: 1000, AnchorMs: proto.Int64(5), EndMs: proto.Int64(7), JitterMs: 9}
	for _, c := range []struct {
		patch string
		want  *fsmpb.Repeat
	}{
		{`{}`, every},
		{`{"every":"2s"}`, &fsmpb.Repeat{EveryMs: 2000, AnchorMs: proto.Int64(5), EndMs: proto.Int64(7), JitterMs: 9}},
		{`{"anchor":null,"end":null,"jitter":null}`, &fsmpb.Repeat{EveryMs: 1000}},
		{`{"every":null,"cron":["@daily"]}`,
			&fsmpb.Repeat{Cron: []string{"@daily"}, EndMs: proto.Int64(7), JitterMs: 9}},
		{`{"every":null,"cron":["@daily"],"anchor":"1970-01-01T00:00:00Z"}`,
			&fsmpb.Repeat{Cron: []string{"@daily"}, AnchorMs: proto.Int64(0), EndMs: proto.Int64(7), JitterMs: 9}},
	} {
		if got, err := read(c.patch, every, true); err != nil || !proto.Equal(got, c.want) {
			t.Errorf("%s: %v (%v)", c.patch, got, err)
		}
	}
	got, err := read(`{"end":null}`, every, false)
	assert.Error(t, err, "a null outside of a patch: %v", got)
}

func TestRule(t *testing.T) {
	first := func(m *fsmpb.Repeat) time.Time {
		rule, err := Rule(m, nil, now)
		assert.NoError(t, err)
		o, _ := rule.Next(now)
		return o.At.UTC()
	}
	start := now.Add(90 * time.Minute).Truncate(time.Second)
	for _, c := range []struct {
		m    *fsmpb.Repeat
		want time.Time
	}{
		{&fsmpb.Repeat{EveryMs: 3_600_000}, now.Truncate(time.Millisecond).Add(time.Hour)},
		{&fsmpb.Repeat{EveryMs: 3_600_000, StartMs: proto.Int64(start.UnixMilli())}, start},
		{&fsmpb.Repeat{EveryMs: 3_600_000, AnchorMs: proto.Int64(1)}, now.Truncate(time.Hour).Add(time.Millisecond)},
	} {
		if got := first(c.m); !got.Equal(c.want) {
			t.Errorf("%v fires at %s, not %s", c.m, got, c.want)
		}
	}
	var wrong *task.FieldError
	if _, err := Rule(&fsmpb.Repeat{TimeZone: "x", EveryMs: 100}, nil, now); !errors.As(err, &wrong) ||
		wrong.Field != "repeat.time_zone" {
		t.Errorf("%v", err)
	}
}
