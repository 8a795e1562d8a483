package stand

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const logFile = "belfry.log"

// ClearLogs empties the nodes' logs. The nodes write at the end of them, wherever that is.
func (s *Stand) ClearLogs() error {
	for _, n := range s.Cluster.Nodes() {
		if err := os.Truncate(filepath.Join(n.Dir, logFile), 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// SaveLogs copies the nodes' logs to a folder.
func (s *Stand) SaveLogs(dir string) error {
	for _, n := range s.Cluster.Nodes() {
		if err := copyFile(filepath.Join(dir, n.Name+".log"), filepath.Join(n.Dir, logFile)); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
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

// Alarms are what in the logs of all nodes must not pass unseen.
type Alarms struct {
	Errors int      // lines of level error
	Worse  []string // what no fault explains: panics, data races, fatal errors of the runtime; with the lines after it
}

var worse = regexp.MustCompile(`^panic: |^fatal error: |panic serving|WARNING: DATA RACE`)

const (
	linesAfter  = 30   // what is worse, which are shown
	longestLine = 1000 // that is shown whole
	mostWorse   = 20   // that are kept
)

// Alarms reads the nodes' logs.
func (s *Stand) Alarms() (Alarms, error) {
	var found Alarms
	for _, n := range s.Cluster.Nodes() {
		f, err := os.Open(filepath.Join(n.Dir, logFile))
		if err != nil {
			return found, err
		}
		err = found.read(n.Name, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return found, err
		}
	}
	return found, nil
}

func (a *Alarms) read(node string, log io.Reader) error {
	in := bufio.NewReader(log)
	left := 0 // lines that belong to what is worse
	for {
		line, err := in.ReadString('\n')
		if strings.Contains(line, "level=ERROR") || strings.Contains(line, `"level":"ERROR"`) {
			a.Errors++
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
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

const tailBytes = 4 << 10

// LogTail is the end of a node's log.
func (s *Stand) LogTail(name string) string {
	for _, n := range s.Cluster.Nodes() {
		if n.Name != name {
			continue
		}
		data, err := os.ReadFile(filepath.Join(n.Dir, logFile))
		if err != nil {
			return err.Error()
		}
		return strings.TrimSpace(string(data[max(0, len(data)-tailBytes):]))
	}
	return ""
}
