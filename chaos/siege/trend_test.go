package siege

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// curve returns an hour of a quantity, with a point every ten seconds.
func curve(q quantity, at func(minutes float64) float64) series {
	s := series{quantity: q, Node: "node-1"}
	for t := time.Duration(0); t <= time.Hour; t += 10 * time.Second {
		s.Points = append(s.Points, point{t, at(t.Minutes())})
	}
	return s
}

func TestTrend(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	sawtooth := func(m float64) float64 { return 300 + 80*math.Mod(m, 7)/7 }
	for name, c := range map[string]struct {
		at   func(m float64) float64
		flat bool
	}{
		"still":                           {func(float64) float64 { return 300 }, true},
		"noise":                           {func(float64) float64 { return 300 + 60*rng.NormFloat64() }, true},
		"sawtooth":                        {sawtooth, true},
		"falling":                         {func(m float64) float64 { return 400 - 3*m }, true},
		"warms up":                        {func(m float64) float64 { return 300 * min(1, m/12) }, true},
		"wild points":                     {func(m float64) float64 { return 300 + 5e3*math.Floor(rng.Float64()*1.1) }, true},
		"grows by a megabyte a minute":    {func(m float64) float64 { return 300 + m }, false},
		"sawtooth on a slope":             {func(m float64) float64 { return sawtooth(m) + m }, false},
		"noise on a slope":                {func(m float64) float64 { return 300 + 30*rng.NormFloat64() + 1.5*m }, false},
		"steps":                           {func(m float64) float64 { return 300 + 20*math.Floor(m/10) }, false},
		"only its first third is growing": {func(m float64) float64 { return 300 + min(m, 20) }, true},
	} {
		if got := curve(quantities()[0], c.at).trend(); got.Flat() != c.flat || !got.Judged {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestTooLittleIsNotJudged(t *testing.T) {
	s := curve(quantities()[0], func(m float64) float64 { return 100 * m })
	s.Points = s.Points[:150]
	if got := s.trend(); got.Judged || !got.Flat() {
		t.Errorf("%+v", got)
	}
	if got := (series{quantity: quantities()[0]}).trend(); got.Judged {
		t.Errorf("%+v", got)
	}
	rising := func(m float64) float64 { return m }
	if got := curve(quantity{Name: processor}, rising).trend(); got.Judged || got.Growth < 39 {
		t.Errorf("%+v", got)
	}
}

// TestUnjudged checks that a long watch has judged every bounded quantity of every node to the end, or names each gap.
func TestUnjudged(t *testing.T) {
	level := func(float64) float64 { return 300 }
	whole := func() (all []series) {
		for _, q := range quantities() {
			for _, node := range []string{"node-1", "node-2"} {
				s := curve(q, level)
				s.Node = node
				all = append(all, s)
			}
		}
		return all
	}
	nodes := []string{"node-1", "node-2"}
	for name, test := range map[string]struct {
		spoil  func(all []series) []series
		lasted time.Duration
		want   string // the one gap; empty: none
	}{
		"all":       {func(all []series) []series { return all }, time.Hour, ""},
		"no series": {func(all []series) []series { return all[1:] }, time.Hour, "memory of node-1 was never seen"},
		"too few": {func(all []series) []series { all[3].Points = all[3].Points[340:]; return all }, time.Hour,
			"heap of node-2 was seen 21 times after its warm-up, which is too little to be judged"},
		"none": {func(all []series) []series { all[3].Points = nil; return all }, time.Hour,
			"heap of node-2 was seen 0 times after its warm-up, which is too little to be judged"},
		"not to the end": {func(all []series) []series { all[0].Points = all[0].Points[:241]; return all }, time.Hour,
			"memory of node-1 was last seen after 40m0s of 1h0m0s"},
		"nothing": {func(all []series) []series {
			all[0] = curve(all[0].quantity, func(float64) float64 { return 0 })
			return all
		},
			time.Hour, "memory of node-1 was nothing all the time"},
		"not judged": {func(all []series) []series { return all[:len(all)-1] }, time.Hour, ""},
		"too short":  {func([]series) []series { return nil }, 30 * time.Minute, ""},
	} {
		if got := strings.Join(unjudged(test.spoil(whole()), nodes, test.lasted), "; "); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	s := curve(quantities()[0], level)
	s.Points = s.Points[:1+int(enough/(10*time.Second))]
	if !s.trend().Judged {
		t.Error("a watch that was long enough is not judged")
	}
}
