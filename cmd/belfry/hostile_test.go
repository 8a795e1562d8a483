package main

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/internal/assert"
)

// hostile is a text with characters that a terminal obeys, and lines that look like those of a command.
const hostile = "a\x1b]0;title\a\r\nstate  forged\n[1m\u009b31mb\u202ec\u2066d\x7f\te"

// moreCalls are commands whose answers have texts that callers, nodes or receivers choose.
var moreCalls = []string{
	"schedule get s", `{"id":"s","repeat":{"every":"1h","time_zone":"UTC"},"task":{"queue":"q","labels":{"k":"v"}},
		"note":"n","paused":true,"next_at":null}`,
	"schedule list", `{"schedules":[{"id":"s","repeat":{"every":"1h"},"task":{"queue":"q"},"note":"n"}]}`,
	"schedule occurrences s", `{"last":[{"number":1,"due":"2026-01-01T00:00:00.000Z","state":"dead","reason":"r"}]}`,
	"task history a", `{"task":"a","events":[{"type":"failed","at":"2026-01-01T00:00:00.000Z","task":"a","queue":"q",
		"due":"2026-01-01T00:00:00.000Z","lateness":"0s","attempt":1,"answer":"x","shard":1}],"missing":["n1"]}`,
	"doctor", `{"findings":[{"severity":"note","code":"c","summary":"s","do":["belfry doctor"]}]}`,
	"audit", `{"records":[{"time":"2026-01-01T00:00:00.000Z","node":"n","method":"PUT","route":"/v1/tasks/{id}",
		"object":{"id":"a"},"fields":["f"],"caller":{"kind":"key","id":"k","name":"x"},"from":"1.2.3.4","problem":"p"}],
		"missing":[{"node":"n","error":"e"}]}`,
	"operation show op-1", `{"id":"op-1","kind":"bulk","state":"stopped","detail":"d","waits":["w"]}`,
	"key list", `{"keys":[{"id":"k","name":"n","grants":[{"role":"read","namespace":"x"}]}]}`,
	"key create n --role read", `{"id":"k","name":"n","key":"bfy_x","grants":[{"role":"read","namespace":"x"}]}`,
	"namespace list", `{"namespaces":[{"namespace":"n"}]}`,
	"node list", `{"nodes":[{"id":"n1","name":"n","http_addr":"a","zone":"z","waits":["w"]}]}`,
	"node token list", `{"tokens":[{"id":"t","made_by":"m"}]}`,
	"shards list", `{"shards":[{"id":1,"leader":"n1","replicas":["n1"],"waits":"w","step":"s"}],
		"auto_split":{"bytes":1,"shards":2,"waits":"w"}}`,
	"cluster status", `{"cluster_id":"c","waits":"w","nodes":[{"id":"n1","name":"n","http_addr":"a","zone":"z"}],
		"shards":[{"id":1,"leader":"n1","replicas":[{"node":"n1","state":"leader"}]}]}`,
}

// Each text in an answer of a node may come from a stranger. No command passes one on to the terminal as it is, and none
// prints a line that begins within one.
func TestTextsOfStrangers(t *testing.T) {
	t.Parallel()
	answers := slices.Clone(moreCalls)
	for _, c := range calls {
		answers = append(answers, c.args, c.answer)
	}
	runs := 0
	for pair := range slices.Chunk(answers, 2) {
		args := strings.Fields(pair[0])
		for _, answer := range spoiled(t, pair[1]) {
			for _, form := range []string{"wide", "json", "yaml"} {
				if form != "wide" && args[0] == "doctor" {
					continue // as other values
				}
				runs++
				s := serveOne(t, 200, answer)
				out, cmd, err := executed(t, append(slices.Clone(args), "-o", form, "--addr", s.url)...)
				if err != nil {
					out += cli.Explain(cmd, err)
				}
				checkTame(t, pair[0]+" -o "+form, out)
			}
		}
	}
	refusal := `{"type":"urn:belfry:problem:bad-request","title":"t","status":400,"detail":"d","field":"f","limit":"l"}`
	for _, answer := range spoiled(t, refusal) {
		_, cmd, err := executed(t, "task", "get", "a", "--addr", serveOne(t, 400, answer).url)
		checkTame(t, "a refusal", cli.Explain(cmd, err))
	}
	if runs < 500 {
		t.Errorf("only %d runs", runs)
	}
	checkTame(t, "an error", cli.Explain(newRoot(), errors.New("a\x1b[2Jb")))
}

// checkTame checks that an output has no character but printable ones and ends of lines, and no forged line.
func checkTame(t *testing.T, name, out string) {
	t.Helper()
	if i := strings.IndexFunc(out, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
		t.Errorf("%s prints %q", name, out[max(0, i-20):min(len(out), i+20)])
	}
	if strings.Contains(out, "\nstate  forged") {
		t.Errorf("%s prints a forged line:\n%s", name, out)
	}
}

// spoiled returns the answer as often as it has texts, each time with another one hostile.
func spoiled(t *testing.T, answer string) (all []string) {
	t.Helper()
	var value any
	assert.NoError(t, json.Unmarshal([]byte(answer), &value))
	visitTexts(value, func(set func(any), old string) {
		set(hostile)
		text, err := json.Marshal(value)
		assert.NoError(t, err)
		all = append(all, string(text)+"\n")
		set(old)
	})
	return all
}

// visitTexts calls f with each text of a value, and with the means to change it.
func visitTexts(value any, f func(set func(any), old string)) {
	visit := func(child any, set func(any)) {
		if text, ok := child.(string); ok {
			f(set, text)
		} else {
			visitTexts(child, f)
		}
	}
	switch v := value.(type) {
	case map[string]any:
		for name, child := range v {
			visit(child, func(to any) { v[name] = to })
		}
	case []any:
		for i, child := range v {
			visit(child, func(to any) { v[i] = to })
		}
	}
}
