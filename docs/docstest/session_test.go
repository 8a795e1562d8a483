package docstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/belfryhq/belfry/deploy/child"
)

const (
	blockLimit = 2 * time.Minute // for the commands of a block
	waitLimit  = time.Minute     // for lines of a background block
	stopLimit  = 2 * time.Minute // for a background block to end after an interrupt
)

// answered is the prefix of the status of each answer to curl.
const answered = "curl was answered "

// session is the run of one page.
type session struct {
	t       *testing.T
	folder  string
	env     []string
	running map[string]*background
	started []string          // names of the running blocks, in their order
	printed []string          // output of the last block of commands, or outputs of the programs in a row
	inRow   bool              // the last block was a program
	refused []string          // statuses from 400 on in the last block
	fields  map[string]string // last values of the answers' fields
}

// background is a block that keeps running.
type background struct {
	process *child.Child
	log     string
}

func newSession(t *testing.T, place *place) *session {
	return &session{t: t, folder: place.folder, env: place.environment(t),
		running: map[string]*background{}, fields: map[string]string{}}
}

// playAll runs the blocks of a page. It continues after a failed block, and reports all failures.
func (s *session) playAll(p page) error {
	var all []error
	for _, b := range playOrder(p.blocks) {
		k, err := parseKind(b.info)
		if err == nil {
			err = s.play(k, b.text)
		}
		if err != nil {
			all = append(all, fmt.Errorf("%s:%d: %w", p.name, b.line, err))
		}
	}
	if err := s.allShown(); err != nil {
		all = append(all, fmt.Errorf("%s: %w", p.name, err))
	}
	for _, name := range slices.Backward(s.started) {
		b := s.running[name]
		if err := b.stop(); err != nil {
			all = append(all, fmt.Errorf("%s: %s: %w\n%s", p.name, name, err, child.LogTail(b.log)))
		}
	}
	return errors.Join(all...)
}

// play runs a block, or compares it with the output of earlier blocks.
func (s *session) play(k kind, text string) error {
	joins := s.inRow && k.runs()
	if s.inRow = k.runs(); !joins && (s.inRow || k.language == "sh" || k.language == "console") {
		s.printed = nil
	}
	switch k.language {
	case "sh":
		return s.commands(k, text)
	case "console":
		return s.dialogue(text)
	case "go", "java", "python", "ts":
		return s.program(k, text)
	case "json":
		return s.answers(text)
	case "output":
		if k.of != "" {
			return s.wait(s.running[k.of], lines(text, k.shape), k.shape)
		}
		for _, printed := range s.printed {
			if got := lines(printed, k.shape); !contains(got, lines(text, k.shape)) {
				return fmt.Errorf("these lines do not stand together in the output, which was\n%s", printed)
			}
		}
	}
	return nil
}

func (s *session) commands(k kind, text string) error {
	if err := s.allShown(); err != nil {
		return err
	}
	if k.untested != "" {
		return s.check(text)
	}
	text, err := s.filled(text)
	if err != nil {
		return err
	}
	if k.background != "" {
		return s.leaveRunning(k.background, text)
	}
	return s.run(text)
}

// run runs commands in a shell of their own, which ends at the first failing command.
func (s *session) run(commands string) error {
	ctx, cancel := context.WithTimeout(s.t.Context(), blockLimit)
	defer cancel()
	shell := s.shell(ctx, commands)
	var stdout, stderr bytes.Buffer
	shell.Stdout, shell.Stderr = &stdout, &stderr
	err := shell.Run()
	s.printed = append(s.printed, stdout.String())
	s.refused = nil
	for line := range strings.Lines(stderr.String()) {
		if _, status, ok := strings.Cut(strings.TrimSpace(line), answered); ok && status >= "400" {
			s.refused = append(s.refused, status)
		}
	}
	if err != nil {
		return fmt.Errorf("%w\n%s%s", err, stdout.String(), stderr.String())
	}
	s.remember()
	s.export(commands)
	return nil
}

// last returns the output of the last command or program.
func (s *session) last() string {
	if len(s.printed) == 0 {
		return ""
	}
	return s.printed[len(s.printed)-1]
}

// exported matches a command that sets a variable for the rest of a page.
var exported = regexp.MustCompile(`(?m)^export ([A-Z_]+=\S+)$`)

// export sets the variables of a block of commands for the blocks after it, as one terminal would.
func (s *session) export(commands string) {
	for _, match := range exported.FindAllStringSubmatch(commands, -1) {
		s.env = append(s.env, match[1])
	}
}

func (s *session) shell(ctx context.Context, commands string) *exec.Cmd {
	shell := exec.CommandContext(ctx, "sh", "-e", "-c", commands)
	shell.Dir, shell.Env, shell.WaitDelay = s.folder, s.env, stopLimit
	return shell
}

// runners have the command that runs a program of each language, beside Belfry's client. The programs in TypeScript have
// no annotations of types, so Node.js runs them as they are.
var runners = map[string]struct{ command, file string }{
	"go":     {"go run", "main.go"},  // finds the packages of the repository, where it runs
	"java":   {"java", "Main.java"},  // by CLASSPATH
	"python": {"python3", "main.py"}, // by PYTHONPATH
	"ts":     {"node", "main.mjs"},   // by the folder node_modules beside it
}

// program runs a whole program.
func (s *session) program(k kind, source string) error {
	if err := s.allShown(); err != nil {
		return err
	}
	source, err := s.filled(source)
	if err != nil {
		return err
	}
	runner, folder := runners[k.language], s.t.TempDir()
	file, err := writeProgram(folder, runner.file, source)
	if err != nil {
		return err
	}
	if k.language == "ts" {
		if err := linkTypeScript(folder); err != nil {
			return err
		}
	}
	if k.background != "" {
		return s.leaveRunning(k.background, "exec "+runner.command+" "+file)
	}
	return s.run(runner.command + " " + file)
}

// linkTypeScript lets programs in a folder import the client for TypeScript.
func linkTypeScript(folder string) error {
	scope := filepath.Join(folder, "node_modules", "@belfryhq")
	client, err := filepath.Abs(filepath.Join(repository, "clients/typescript"))
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(scope, 0o755), os.Symlink(client, filepath.Join(scope, "client")))
}

// writeProgram writes a page's program to a file and returns its path.
func writeProgram(folder, name, source string) (string, error) {
	path := filepath.Join(folder, name)
	return path, os.WriteFile(path, []byte(source), 0o644)
}

// remember stores the fields of the printed answers.
func (s *session) remember() {
	answers, _ := documents(s.last()) // other output has no fields
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, value := range v {
				if text, ok := value.(string); ok {
					s.fields[name] = text
				}
				walk(value)
			}
		case []any:
			for _, value := range v {
				walk(value)
			}
		}
	}
	walk(answers)
}

// placeholder matches a field of an earlier answer in a command.
var placeholder = regexp.MustCompile(`<[a-z][a-z_]*>`)

func (s *session) filled(commands string) (string, error) {
	var missing []string
	filled := placeholder.ReplaceAllStringFunc(commands, func(name string) string {
		value, ok := s.fields[strings.Trim(name, "<>")]
		if !ok {
			missing = append(missing, name)
		}
		return value
	})
	if len(missing) > 0 {
		return "", fmt.Errorf("no answer before had %s", strings.Join(missing, ", "))
	}
	return filled, nil
}

// dialogue runs the commands behind "$ " and compares their output with the lines below each.
func (s *session) dialogue(text string) error {
	for _, part := range strings.Split("\n"+text, "\n$ ")[1:] {
		command, shown, _ := strings.Cut(part, "\n")
		if err := s.run(command); err != nil {
			return err
		}
		if want, got := lines(shown, false), lines(s.last(), false); !slices.Equal(want, got) {
			return fmt.Errorf("%s prints\n%s", command, s.last())
		}
	}
	return nil
}

// answers compares the answers that a page shows, and removes their statuses from the unshown refusals.
func (s *session) answers(text string) error {
	shown, err := documents(text)
	if err != nil {
		return err
	}
	printed, err := documents(s.last())
	if err != nil {
		return fmt.Errorf("%w\n%s", err, s.last())
	}
	for _, answer := range shown {
		problem, _ := answer.(map[string]any)
		if i := slices.Index(s.refused, fmt.Sprint(problem["status"])); i >= 0 {
			s.refused = slices.Delete(s.refused, i, i+1)
		}
	}
	return compareJSON(shown, printed)
}

// allShown reports a refusal in the last block that the page does not show.
func (s *session) allShown() error {
	if len(s.refused) == 0 {
		return nil
	}
	err := fmt.Errorf("a call of the block before was answered %s, which the page does not show:\n%s",
		strings.Join(s.refused, ", "), s.last())
	s.refused = nil
	return err
}

func (s *session) leaveRunning(name, commands string) error {
	log := filepath.Join(s.t.TempDir(), "log")
	process, err := child.Start(child.Config{Command: []string{"sh", "-e", "-c", commands}, Env: s.env, Dir: s.folder, Log: log})
	if err != nil {
		return err
	}
	s.running[name] = &background{process, log}
	s.started = append(s.started, name)
	return nil
}

// stop interrupts a background block as Ctrl-C does. A block that ended by itself before is an error.
func (b *background) stop() error {
	if b.process.Ended() {
		return fmt.Errorf("it ended before the page: %v", b.process.Err())
	}
	err := b.process.SignalGroup(syscall.SIGINT)
	select {
	case <-b.process.Done():
		return err
	case <-time.After(stopLimit):
		return errors.Join(err, errors.New("it does not stop"), b.process.SignalGroup(syscall.SIGKILL))
	}
}

// wait waits until the lines are adjacent in the output of a background block.
func (s *session) wait(b *background, want []string, shape bool) error {
	if b == nil {
		return errors.New("the block that should print this does not run")
	}
	deadline := time.After(waitLimit)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ended := b.process.Ended()
		log, err := os.ReadFile(b.log)
		if err != nil {
			return err
		}
		if contains(lines(string(log), shape), want) {
			return nil
		}
		if ended {
			return fmt.Errorf("it ended before it printed these lines: %v\n%s", b.process.Err(), log)
		}
		select {
		case <-tick.C:
		case <-deadline:
			return fmt.Errorf("these lines do not stand together in its output, which is\n%s", log)
		}
	}
}
