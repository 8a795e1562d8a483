package stand

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/belfryhq/belfry/deploy/local"
)

// Logs reads the nodes' logs. The logs are never cut, because the nodes write on while a round is judged and the next
// one begins: lines that were cut off meanwhile would be lost. Only one goroutine may use Logs.
type Logs struct {
	nodes []string
	paths map[string]string // by node, as the fields below
	read  map[string]int64  // bytes that Alarms has read, to the end of a line
	from  map[string]int64  // beginning of the part that Save copies
}

func newLogs(nodes []local.Node) *Logs {
	l := &Logs{paths: map[string]string{}, read: map[string]int64{}}
	for _, n := range nodes {
		l.nodes = append(l.nodes, n.Name)
		l.paths[n.Name] = filepath.Join(n.Dir, "belfry.log")
	}
	return l
}

// Begin makes Save begin at the first line that Alarms has not read.
func (l *Logs) Begin() { l.from = maps.Clone(l.read) }

// Save copies the nodes' log lines since Begin to a folder.
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
	defer func() { _ = in.Close() }() // the file was only read
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// openAt opens a log. A node that has never run has an empty one.
func openAt(path string, offset int64) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && offset == 0 {
		f, err = os.Open(os.DevNull)
	}
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Alarms are the events in the logs of all nodes that the verdict must consider.
type Alarms struct {
	Lines  int            // number of lines read
	Errors int            // lines of level error
	Worse  []string       // panics, data races and fatal errors, each with the lines after it; no fault explains them
	Cut    map[string]int // deaths by node after a log contradicted a leader's snapshot: see package install
}

var worse = regexp.MustCompile(`^panic: |^fatal error: |panic serving|WARNING: DATA RACE`)

// cut matches the last line of a node whose log contradicted the leader's snapshot.
var cut = regexp.MustCompile(`this node cannot go on.*the log contradicted the leader's snapshot`)

const (
	linesAfter  = 30   // lines shown after a line that matches worse
	longestLine = 1000 // bytes of a line that are shown
	mostWorse   = 20   // entries of Worse that are kept
)

// Alarms reads the nodes' log lines since the last call. It leaves an incomplete last line for the next call.
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

// read reads complete lines, and returns their number of bytes.
func (a *Alarms) read(node string, log io.Reader) (whole int64, err error) {
	in := bufio.NewReader(log)
	left := 0 // remaining lines of the last entry of Worse
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

// Tail returns the end of a node's log.
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
