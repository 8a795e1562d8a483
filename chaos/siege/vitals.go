package siege

import (
	"fmt"
	"time"

	"github.com/belfryhq/belfry/chaos/vitals"
)

// vitalsFile is the name of the table of all figures, for a program that draws curves.
const vitalsFile = "vitals.csv"

// notJudged lists the quantities of a soak that were not seen long or often enough to call them flat.
func (r *Report) notJudged() []string {
	if r.Soak && r.Watched < vitals.Enough {
		return []string{fmt.Sprintf("too short a soak to judge what the nodes took: it lasted %v, and it takes %v",
			r.Watched.Round(time.Second), vitals.Enough)}
	}
	return r.Unjudged
}

func (r *Report) tellVitals(say teller) {
	if len(r.Trends) == 0 {
		return
	}
	say("## What the nodes took\n\nMedian and highest after the first third of the time, and by how much the trend grew " +
		"from then on.\n\n| | node | median | highest | growth | allowed | |\n" +
		"| --- | --- | ---: | ---: | ---: | ---: | --- |")
	for _, t := range r.Trends {
		allowed, word := "–", ""
		if t.Judged && r.Soak {
			allowed, word = fmt.Sprintf("%.4g", t.Bound), "flat"
		}
		if r.Soak && !t.Flat() {
			word = "**GROWS**"
		}
		say("| %s | %s | %.4g | %.4g | %+.3g | %s | %s |", measured(t), t.Node, t.Median, t.Max, t.Growth, allowed, word)
	}
	say("\nAll figures: %s.\n", vitalsFile)
}

func (r *Report) tellNotJudged(say teller) {
	for _, what := range r.notJudged() {
		say("**NOT JUDGED**: %s\n", what)
	}
}

func measured(t vitals.Trend) string {
	if t.Unit == "" {
		return t.Quantity
	}
	return t.Quantity + ", " + t.Unit
}

// growth describes a trend that is not flat.
func growth(t vitals.Trend) string {
	return fmt.Sprintf("%s of %s grows: by %.3g from a median of %.4g; %.3g is allowed", measured(t), t.Node, t.Growth,
		t.Median, t.Bound)
}
