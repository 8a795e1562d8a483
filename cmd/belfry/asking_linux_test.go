package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/belfryhq/belfry/internal/assert"
)

// destructive are the command lines that ask first, each with the name of its thing and a part of the question.
var destructive = []struct{ line, name, question string }{
	{"operation cancel --queue orders", "orders", "this cancels 12,431 tasks of queue orders; type the name of the queue"},
	{"operation move --queue orders --in 1h", "orders", "this moves 12,431 tasks of queue orders to 2"},
	{"operation move --queue orders --by -2h --due-before 2030-01-01T00:00:00Z", "orders",
		"this moves 12,431 tasks of queue orders due before 2030-01-01 00:00:00.000 UTC"},
	{"operation move --queue orders --by -2h", "orders", "this moves 12,431 tasks of queue orders by -2h; type"},
	{"operation patch --queue orders --patch {}", "orders", "this patches 12,431 tasks of queue orders"},
	{"operation fire --queue orders", "orders", "this fires 12,431 tasks of queue orders"},
	{"operation replay --prefix a", "", "this replays 12,431 dead letters; type yes: "},
	{"operation purge --queue orders", "orders", "this deletes 12,431 dead letters of queue orders"},
	{"operation pause-schedules --queue orders", "orders", "this pauses 12,431 schedules of queue orders"},
	{"operation resume-schedules --prefix a", "", "this resumes 12,431 schedules; type yes: "},
	{"operation delete-schedules --prefix a", "", "this deletes 12,431 schedules; type yes: "},
	{"operation patch-schedules --prefix a --patch {}", "", "this patches 12,431 schedules; type yes: "},
	{"dead replay orders", "orders", "this replays 12,431 dead letters of queue orders"},
	{"dead replay orders --limit 9", "orders", "this replays 9 dead letters of queue orders"},
	{"dead drop orders a", "orders", "this deletes 1 dead letter of queue orders"},
	{"dead drop orders --all", "orders", "this deletes 12,431 dead letters of queue orders"},
	{"queue delete orders", "orders", "the policy of queue orders, which has 3 unfinished tasks and 1 dead letter"},
	{"namespace delete shop", "shop", "this deletes namespace shop with 7 unfinished tasks and 2 dead letters for ever"},
	{"key revoke abcdefghij", "till", "this ends key till (abcdefghij) for ever, last used: never"},
	{"schedule delete report", "report", "this deletes schedule report after 8 occurrences, with 2 waiting occurrences"},
	{"calendar delete holidays", "holidays", "this deletes calendar holidays with 2 closed days; type the name of the calendar"},
	{"node remove n3", "n3", "this takes node n3 (id3) out of the cluster for ever (1 replicas to copy, about 2KiB)"},
	{"node replace n3", "n3", "this takes node n3 (id3) out of the cluster for ever"},
	{"shards split 2", "", "this begins split shard 2 (512 slots to move, about 1MiB); shards are not merged again; type yes: "},
	{"shards move 0-9 --to 2", "", "this begins move slots 0-9 to shard 2"},
	{"shards balance", "", "this begins balance shards"},
}

// serveCounts answers the counts for the questions, and keeps the calls that change something.
func serveCounts(t *testing.T) (url string, changes *[]string) {
	t.Helper()
	changes = new([]string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		call := r.Method + " " + r.URL.Path
		preview := strings.Contains(string(body), `"dry_run":true`) || strings.Contains(string(body), `"preview":true`)
		if r.Method != http.MethodGet && !preview {
			*changes = append(*changes, call)
		}
		_, _ = io.WriteString(w, countsOf(call))
	}))
	t.Cleanup(server.Close)
	return server.URL, changes
}

// countsOf returns the answer to a call.
func countsOf(call string) string {
	switch {
	case strings.Contains(call, "/operations"):
		return `{"matched":12431,"complete":true,"id":"op-1","kind":"bulk","state":"running"}`
	case strings.Contains(call, "/queues/"):
		return `{"queue":"orders","count":1,"counts":{"scheduled":2,"ready":1,"dead":1}}`
	case strings.Contains(call, "/namespaces/"):
		return `{"name":"shop","namespace":"shop","used":{"pending":7,"dead":2},"id":"op-1","state":"running"}`
	case strings.Contains(call, "/keys/"):
		return `{"id":"abcdefghij","name":"till","grants":[]}`
	case strings.Contains(call, "/schedules/"):
		return `{"id":"report","last":8,"waiting":[9,10],"repeat":{},"task":{}}`
	case strings.Contains(call, "/calendars/"):
		return `{"calendar":"holidays","name":"holidays","closed":["--12-25","--12-26"]}`
	case strings.Contains(call, "/nodes/n3/"):
		return `{"kind":"remove","node":"id3","node_name":"n3","bytes":2048,"steps":[{"action":"add"}],"id":"op-1","state":"running"}`
	case strings.Contains(call, "/shards/split"), strings.Contains(call, "/shards/2/split"):
		return `{"kind":"split","total":512,"bytes":1048576,"steps":[],"id":"op-1","state":"running"}`
	}
	return `{"kind":"balance","total":1,"steps":[],"id":"op-1","state":"running"}`
}

// Without a terminal and --yes, no destructive command makes a call. With --yes it asks nothing.
func TestDestructiveCommandsNeedYes(t *testing.T) {
	for _, d := range destructive {
		url, changes := serveCounts(t)
		out, code := belfry(t, append(strings.Fields(d.line), "--addr", url)...)
		if code != exitUsage || !strings.Contains(out, "give --yes") || len(*changes) > 0 {
			t.Errorf("belfry %s: %d, made %v\n%s", d.line, code, *changes, out)
		}
		out, code = belfry(t, append(strings.Fields(d.line), "--yes", "--addr", url)...)
		if code != 0 || strings.Contains(out, "type") || len(*changes) != 1 {
			t.Errorf("belfry %s --yes: %d, made %v\n%s", d.line, code, *changes, out)
		}
	}
}

// On a terminal a destructive command names its counted effect on the standard error, and takes the name of its thing
// or yes.
func TestDestructiveCommandsAsk(t *testing.T) {
	for _, d := range destructive {
		answers := map[string]bool{"yes": true, "y": false, "no": false, "": false}
		if d.name != "" {
			answers[d.name] = true
		}
		for answer, agreed := range answers {
			url, changes := serveCounts(t)
			out, notes, err := atTerminal(t, answer, append(strings.Fields(d.line), "-o", "json", "--addr", url)...)
			assert.Contains(t, notes, d.question, "belfry %s: asked", d.line)
			if (err == nil) != agreed || (len(*changes) == 1) != agreed || strings.Contains(out, "type") || (out == "") == agreed {
				t.Errorf("belfry %s, answered %q: %v, made %v\n%s", d.line, answer, err, *changes, out)
			}
		}
	}
}

// Each command that takes --yes is in the list of destructive ones, or destroys nothing.
func TestDestructiveCommandsAreKnown(t *testing.T) {
	root := newRoot()
	known := []string{"belfry bench", "belfry apply"} // TestBenchRefuses, TestApply
	for _, d := range destructive {
		cmd, _, err := root.Find(strings.Fields(d.line))
		assert.NoError(t, err)
		known = append(known, cmd.CommandPath())
	}
	eachCommand(root, func(cmd *cobra.Command) {
		if cmd.Flags().Lookup("yes") != nil && !slices.Contains(known, cmd.CommandPath()) {
			t.Errorf("%s asks, and no test answers", cmd.CommandPath())
		}
	})
}

// atTerminal runs a command line whose standard input is a terminal with an answer.
func atTerminal(t *testing.T, answer string, args ...string) (out, notes string, err error) {
	t.Helper()
	user, terminal := openTerminal(t)
	if _, err := io.WriteString(user, answer+"\n"); err != nil {
		t.Fatal(err)
	}
	return ranWith(context.WithoutCancel(t.Context()), terminal, args...)
}

// openTerminal returns the two ends of a terminal of Linux.
func openTerminal(t *testing.T) (user, terminal *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = user.Close() })
	assert.NoError(t, unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	assert.NoError(t, err)
	terminal, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	assert.NoError(t, err)
	t.Cleanup(func() { _ = terminal.Close() })
	return user, terminal
}

// TestTablesFitTheTerminal checks that a table keeps to the width of a terminal, and that it is whole elsewhere.
func TestTablesFitTheTerminal(t *testing.T) {
	id := "order-1042-close-" + strings.Repeat("0123456789", 8)
	s := serveOne(t, 200, `{"tasks":[`+strings.ReplaceAll(taskJSON, `"id":"a"`, `"id":"`+id+`"`)+`]}`)
	if out, code := belfry(t, "task", "list", "--addr", s.url); code != 0 || !strings.Contains(out, id) {
		t.Errorf("%d\n%s", code, out)
	}
	lines := onTerminal(t, 2, "task", "list", "--addr", s.url)
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > 80 || n < 70 {
			t.Errorf("a line of %d: %s", n, line)
		}
	}
	if !strings.HasPrefix(lines[1], "order-") || !strings.Contains(lines[1], "789  scheduled") {
		t.Error(lines[1])
	}
}

// onTerminal runs a command on a terminal of 80 columns, and returns its first lines.
func onTerminal(t *testing.T, lines int, args ...string) []string {
	t.Helper()
	user, terminal := openTerminal(t)
	assert.NoError(t, unix.IoctlSetWinsize(int(user.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}))
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(terminal)
	assert.NoError(t, root.ExecuteContext(t.Context()))
	var questions []string
	for text := bufio.NewScanner(user); len(questions) < lines; questions = append(questions, text.Text()) {
		if !text.Scan() {
			t.Fatal(text.Err())
		}
	}
	return questions
}

// TestClusterFitsTheTerminal checks that the tables about nodes and shards keep to 80 columns: nodes with long names are
// away, a replica is copied, and a backup is there. A wide table has all columns.
func TestClusterFitsTheTerminal(t *testing.T) {
	t.Parallel()
	const zone = `"zone":"europe-west3-a","weight":100,"clock_offset_ms":-12.5,"command_version":7,"build":"v1.0.0-rc.1+20261130",` +
		`"disk_free":872415232000,"disk_total":1099511627776,"peer_addr":"belfry-0.belfry.timers.svc:8500"`
	var nodes, replicas []string
	for i := range 3 {
		name := fmt.Sprint("belfry-", i)
		nodes = append(nodes, fmt.Sprintf(`{"id":"01jd0%s","name":%q,"http_url":"https://%s.belfry.timers.svc.cluster.local:8400",`+
			`"order":"replace","replicas":12,"leads":4,"away_since":"2026-11-29T09:00:00.000Z",%s}`, name, name, name, zone))
		replicas = append(replicas, fmt.Sprintf(`{"node":"01jd0%s","state":"follower","voter":true,"applied":%d}`, name, 1000-i*10))
	}
	replicas[2] = strings.Replace(replicas[2], "}", `,"received":0.45,"diverged":true}`, 1)
	list := `{"nodes":[` + strings.Join(nodes, ",") + `]}`
	view := list[:len(list)-1] + `,"cluster_id":"01jd0cluster","replication":{"wanted":3,"fewest":2},"shards":[{"id":12,` +
		`"leader":"01jd0belfry-0","term":14,"tasks":123456789,"target":["01jd0belfry-1"],"bytes":99,"step":"join","waits":` +
		`"a long reason for which the step waits","replicas":[` + strings.Join(replicas, ",") + `]}],"backups":{"last_kept":{` +
		`"node":"01jd0belfry-0","begun_at":"2026-11-29T09:00:00.000Z","seen_at":"2026-11-29T09:00:10.000Z","bytes":123456789,` +
		`"place":"s3://backups.example/belfry/2026-11-29T09-00-00"}}}`
	for _, c := range []struct {
		command, answer string
		lines           int
		always          string   // found in each table
		wide            []string // found in a wide table only
	}{
		{"node list", list, 4, "812.5GiB (79 %)", []string{"ZONE", "CLOCK", "PEER", "01jd0belfry-0", "v1.0.0-rc.1+20261130"}},
		{"cluster status", view, 18, "\nbelfry-2: 45 % copied, DIVERGED (shard 12)\n", []string{
			"READS", "TERM", "belfry-1 990", "01jd0belfry-0", "BEGUN",
		}},
	} {
		s := serveOne(t, 200, c.answer)
		args := append(strings.Fields(c.command), "--addr", s.url)
		lines := onTerminal(t, c.lines, args...)
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > 80 {
				t.Errorf("%s: a line of %d: %s", c.command, n, line)
			}
		}
		narrow := strings.Join(lines, "\n")
		out, code := belfry(t, append(args, "-o", "wide")...)
		if code != 0 || !strings.Contains(out, c.always) || !strings.Contains(narrow, c.always) {
			t.Errorf("%s: want %q:\n%s\n%s", c.command, c.always, narrow, out)
		}
		for _, text := range c.wide {
			if !strings.Contains(out, text) || strings.Contains(narrow, text) {
				t.Errorf("%s: %s, which is for a wide table:\n%s\n%s", c.command, text, narrow, out)
			}
		}
	}
}
