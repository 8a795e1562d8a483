package contract

import (
	"strings"
	"testing"
)

// TestClip checks that quotations are short, whole in their characters, and without secrets.
func TestClip(t *testing.T) {
	long := strings.Repeat("é", 100)
	for text, want := range map[string]string{
		"limit": "limit", long: strings.Repeat("é", 64) + "…",
		"bfy_q7m2x9c4ta_secret": "[redacted]",
		"/v1/tasks/" + strings.Repeat("x", 110) + "whsec_MDEyMzQ1Njc": "[redacted]",
	} {
		if got := Clip(text); got != want {
			t.Errorf("Clip(%q) is %q", text, got)
		}
	}
}
