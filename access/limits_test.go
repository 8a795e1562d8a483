package access

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// The largest value that each limit allows passes. One more is refused, and the error names the field.
func TestLimitsOfGrants(t *testing.T) {
	read := Grant{Role: Read, Namespace: "shop"}
	with := func(change func(*Grant)) []Grant {
		g := read
		change(&g)
		return []Grant{read, g}
	}
	long := strings.Repeat("n", 63)
	pattern := strings.Repeat("p", MaxPatternBytes)
	cases := []struct {
		field           string
		allowed, beyond []Grant
	}{
		{"grants", slices.Repeat([]Grant{read}, MaxGrants), slices.Repeat([]Grant{read}, MaxGrants+1)},
		{"grants", []Grant{read}, nil},
		{"grants[1].role", with(func(g *Grant) { g.Role = Admin }), with(func(g *Grant) { g.Role = Admin + 1 })},
		{"grants[1].role", with(func(g *Grant) { g.Role = Read }), with(func(g *Grant) { g.Role = Open })},
		{"grants[1].namespace", with(func(g *Grant) { g.Namespace = long }), with(func(g *Grant) { g.Namespace = long + "n" })},
		{"grants[1].namespace", with(func(g *Grant) { g.Namespace = "*" }), with(func(g *Grant) { g.Namespace = "" })},
		{"grants[1].namespace", with(func(g *Grant) { g.Namespace = "a-1" }), with(func(g *Grant) { g.Namespace = "a-" })},
		{"grants[1].namespace", with(func(g *Grant) { g.Namespace = "1" }), with(func(g *Grant) { g.Namespace = "-1" })},
		{"grants[1].namespace", with(func(g *Grant) { g.Namespace = "a1" }), with(func(g *Grant) { g.Namespace = "a*" })},
		{"grants[1].queues", with(func(g *Grant) { g.Queues = slices.Repeat([]string{"q"}, MaxPatterns) }),
			with(func(g *Grant) { g.Queues = slices.Repeat([]string{"q"}, MaxPatterns+1) })},
		{"grants[1].queues[1]", with(func(g *Grant) { g.Queues = []string{"q", "*"} }),
			with(func(g *Grant) { g.Queues = []string{"q", ""} })},
		{"grants[1].queues[0]", with(func(g *Grant) { g.Queues = []string{"mail:eu-1.a~_*"} }),
			with(func(g *Grant) { g.Queues = []string{"mail*eu*"} })},
		{"grants[1].ids", with(func(g *Grant) { g.IDs = slices.Repeat([]string{"i"}, MaxPatterns) }),
			with(func(g *Grant) { g.IDs = slices.Repeat([]string{"i"}, MaxPatterns+1) })},
		{"grants[1].ids[0]", with(func(g *Grant) { g.IDs = []string{pattern} }),
			with(func(g *Grant) { g.IDs = []string{pattern + "p"} })},
		{"grants[1].ids[0]", with(func(g *Grant) { g.IDs = []string{"nightly@7"} }),
			with(func(g *Grant) { g.IDs = []string{"größe"} })},
	}
	for i, c := range cases {
		if err := CheckGrants(c.allowed); err != nil {
			t.Errorf("case %d: %s: the limit itself is refused: %v", i, c.field, err)
		}
		err := CheckGrants(c.beyond)
		if err == nil || err.Field != c.field || !strings.HasPrefix(err.Error(), c.field+": ") {
			t.Errorf("case %d: %s: got %v", i, c.field, err)
		}
	}
}

func TestLimitsOfKeys(t *testing.T) {
	now, end := time.Unix(1_000_000, 0), time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	name := strings.Repeat("ü", MaxKeyNameChars)
	cases := []struct {
		field           string
		allowed, beyond *FieldError
	}{
		{"name", CheckKeyName(name), CheckKeyName(name + "n")},
		{"name", CheckKeyName("n"), CheckKeyName("")},
		{"name", CheckKeyName("Jane's key"), CheckKeyName("a\nb")},
		{"name", CheckKeyName("n"), CheckKeyName("\xff")},
		{"expires_at", CheckExpires(now.Add(1), now), CheckExpires(now, now)},
		{"expires_at", CheckExpires(time.Time{}, now), CheckExpires(now.Add(-1), now)},
		{"expires_at", CheckExpires(end.Add(-1), now), CheckExpires(end, now)},
		{"overlap", CheckOverlap(0), CheckOverlap(-1)},
		{"overlap", CheckOverlap(MaxOverlap), CheckOverlap(MaxOverlap + 1)},
	}
	for i, c := range cases {
		if c.allowed != nil {
			t.Errorf("case %d: %s: the limit itself is refused: %v", i, c.field, c.allowed)
		}
		if c.beyond == nil || c.beyond.Field != c.field {
			t.Errorf("case %d: %s: got %v", i, c.field, c.beyond)
		}
	}
}
