package stand

import (
	"bufio"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/belfryhq/belfry/deploy/local"
)

// Logs are the nodes' logs. They are never cut: the nodes write on while a round is judged and the next one begins, and
// what was cut off then nobody would ever see. One goroutine uses them.
type Logs struct {
	nodes []string
	paths map[string]string // by node, as all that follows
	read  map[string]int64  // what Alarms has read, to the end of a line
	from  map[string]int64  // where what Save saves begins
}

func newLogs(nodes []local.Node) *Logs {
	l := &Logs{paths: map[string]string{}, read: map[string]int64{}}
	for _, n := range nodes {
		l.nodes = append(l.nodes, n.Name)
		l.paths[n.Name] = filepath.Join(n.Dir, "belfry.log")
	}
	return l
}

// Begin has Save begin with what Alarms has not read.
func (l *Logs) Begin() { l.from = maps.Clone(l.read) }

// Save copies what the nodes have logged since Begin to a folder.
func (l *Logs) Save(dir string) error {
	for _, n := range l.nodes {
		if err := copyFrom(filepath.Join(dir, n+".log"), l.paths[n], l.from[n]); err != nil {
			return err
		}
	}
	return nil
}

func copyFrom(to, path string, from int64) error {
	in, err := openAt(path, from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func openAt(path string, offset int64) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Alarms are what in the logs of all nodes must not pass unseen.
type Alarms struct {
	Lines  int            // that were read
	Errors int            // lines of level error
	Worse  []string       // what no fault explains: panics, data races, fatal errors of the runtime; with what follows
	Cut    map[string]int // by node, how often it ended since a log contradicted a leader's snapshot: see package install
}

var worse = regexp.MustCompile(`^panic: |^fatal error: |panic serving|WARNING: DATA RACE`)

// cut is the last that such a node says.
var cut = regexp.MustCompile(`this node cannot go on.*the log contradicted the leader's snapshot`)

const (
	linesAfter  = 30   // what is worse, which are shown
	longestLine = 1000 // that is shown whole
	mostWorse   = 20   // that are kept
)

// Alarms reads what the nodes have logged since it was called last. A line that is not whole yet is for the next time.
func (l *Logs) Alarms() (Alarms, error) {
	found := Alarms{Cut: map[string]int{}}
	for _, n := range l.nodes {
		f, err := openAt(l.paths[n], l.read[n])
		if err != nil {
			return found, err
		}
		whole, err := found.read(n, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return found, err
		}
		l.read[n] += whole
	}
	return found, nil
}

// read takes whole lines, and returns how many bytes these are.
func (a *Alarms) read(node string, log io.Reader) (whole int64, err error) {
	in := bufio.NewReader(log)
	left := 0 // lines that belong to what is worse
	for {
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return whole, nil
		}
		if err != nil {
			return whole, err
		}
		whole += int64(len(line))
		a.Lines++
		if strings.Contains(line, "level=ERROR") || strings.Contains(line, `"level":"ERROR"`) {
			a.Errors++
		}
		if cut.MatchString(line) {
			a.Cut[node]++
		}
		line = strings.TrimSuffix(line[:min(len(line), longestLine)], "\n")
		switch {
		case left == 0 && worse.MatchString(line) && len(a.Worse) < mostWorse:
			a.Worse = append(a.Worse, node+": "+line)
			left = linesAfter
		case left > 0:
			left--
			a.Worse[len(a.Worse)-1] += "\n" + line
		}
	}
}

const tailBytes = 4 << 10

// Tail is the end of a node's log.
func (l *Logs) Tail(node string) string {
	text, err := tail(l.paths[node])
	if err != nil {
		return err.Error()
	}
	return text
}

func tail(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	f, err := openAt(path, max(0, info.Size()-tailBytes))
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(f)
	return strings.TrimSpace(string(data)), errors.Join(err, f.Close())
}
