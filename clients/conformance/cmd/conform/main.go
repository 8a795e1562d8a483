package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
)

// clients are the values of the flag --client: a name, and the command of its driver.
type clients []struct{ name, command string }

func (c *clients) String() string { return fmt.Sprint(*c) }

func (c *clients) Set(text string) error {
	name, command, ok := strings.Cut(text, "=")
	if !ok {
		return errors.New("it is not NAME=COMMAND")
	}
	*c = append(*c, struct{ name, command string }{name, command})
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := conform(ctx); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func conform(ctx context.Context) (err error) {
	var drivers clients
	flag.Var(&drivers, "client", "`NAME=COMMAND` of a client's driver; may repeat")
	binary := flag.String("belfry", "bin/belfry", "`path` of the program belfry")
	cases := flag.String("cases", "clients/conformance", "`folder` of the cases")
	openapi := flag.String("openapi", "httpapi/openapi.yaml", "`path` of the contract")
	only := flag.String("run", "", "runs only the cases whose names match this `expression`, and judges no coverage")
	table := flag.String("table", "", "`file` that gets the table of cases and clients")
	kills := flag.Int("kills", 4, "`number` of leaders to kill, in the case that kills many")
	flag.Parse()
	if len(drivers) == 0 {
		return errors.New("name a client by --client")
	}
	matching, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	s, err := readCases(*cases)
	if err != nil {
		return err
	}
	s.kills = *kills
	if s.contract, err = readContract(*openapi); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "conform")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if s.stage, err = newStage(ctx, *binary, dir); err != nil {
		return err
	}
	defer s.stage.close()
	var results []result
	for _, client := range drivers {
		r, err := s.judge(ctx, client.name, client.command, matching, *only == "")
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	var page strings.Builder
	failed := s.write(&page, results, matching.MatchString)
	if *table != "" {
		if err := os.WriteFile(*table, []byte(page.String()), 0o644); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(os.Stdout, page.String()); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d faults", failed)
	}
	return nil
}

// result is the outcome of all cases on one client.
type result struct {
	client  string
	faults  map[string]error // by the cases' names
	missing []string         // operations and problems that no passed case has reached
}

func (s *suite) judge(ctx context.Context, name, command string, matching *regexp.Regexp, whole bool) (result, error) {
	d, err := startDriver(name, command)
	if err != nil {
		return result{}, err
	}
	covered := newCoverage()
	r := result{client: name, faults: s.runAll(ctx, d, matching.MatchString, covered)}
	if whole {
		r.missing = covered.missing(s.contract, s.outside)
	}
	return r, d.stop()
}

// write writes the table of cases and clients, and then the faults. It returns the number of faults.
func (s *suite) write(w io.Writer, results []result, matching func(string) bool) (failed int) {
	out := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) } // w is a strings.Builder
	out("# Conformance\n\nThe gate plays these [cases](../../clients/conformance/README.md) against each client, on a " +
		"cluster of three\nnodes and on scripted nodes. It writes this table.\n\n| case |")
	for _, r := range results {
		out(" %s |", r.client)
	}
	out("\n| --- |%s\n", strings.Repeat(" --- |", len(results)))
	var faults strings.Builder
	for _, c := range s.cases {
		if !matching(c.Name) {
			continue
		}
		out("| %s |", c.Name)
		for _, r := range results {
			mark := "yes"
			if err := r.faults[c.Name]; err != nil {
				mark = "**no**"
				failed++
				fmt.Fprintf(&faults, "- %s: %s: %v\n", r.client, c.Name, err)
			}
			out(" %s |", mark)
		}
		out("\n")
	}
	for _, r := range results {
		for _, name := range r.missing {
			failed++
			fmt.Fprintf(&faults, "- %s: no passed case reaches the %s\n", r.client, name)
		}
	}
	if failed > 0 {
		out("\n%s", faults.String())
	}
	return failed
}
