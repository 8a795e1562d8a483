package manual

import (
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

// No text is a request or an escape of roff.
func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		".SH X":      `\&.SH X`,
		"'so file":   `\(aqso file`,
		`a\fB--b`:    `a\efB\-\-b`,
		"one\n.two":  "one\n\\&.two",
		"~`^\"":      `\(ti\(ga\(ha\(dq`,
		"plain text": "plain text",
	} {
		assert.Equal(t, escape(text), want, "%q", text)
	}
}

// Markdown sees no markup in a text, except for code.
func TestPlain(t *testing.T) {
	got, want := plain("<a> *b* c_d [e] `f_*`"), "\\<a> \\*b\\* c\\_d \\[e] `f_*`"
	assert.Equal(t, got, want)
}

// A help text is split into paragraphs and lines whose form counts.
func TestBlocks(t *testing.T) {
	got := blocks("A paragraph\nof two lines.\n\n  raw   a\n  raw b\n\nEnd.")
	want := []Block{{Text: "A paragraph of two lines."}, {Text: "  raw   a\n  raw b", Raw: true}, {Text: "End."}}
	assert.MustEqual(t, len(got), len(want), "%+v", got)
	for i := range want {
		assert.Equal(t, got[i], want[i])
	}
}
