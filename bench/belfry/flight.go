package belfry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/belfryhq/belfry/deploy/local"
)

// flight controls the flight recorders of the nodes. A node serves its recorder beside its profiles.
type flight struct {
	dir   string
	addrs []string // of the nodes' profiles; empty: the nodes record nothing
}

func newFlight(on bool, dir string) (*flight, error) {
	f := &flight{dir: dir}
	if !on {
		return f, nil
	}
	var err error
	f.addrs, err = local.FreeAddrs(nodes)
	return f, err
}

// places makes each node serve its profiles.
func (f *flight) places() []local.Place {
	var places []local.Place
	for _, addr := range f.addrs {
		places = append(places, local.Place{Args: []string{"--pprof", addr}})
	}
	return places
}

// begin starts the recorders of the nodes. A restarted node does not record.
func (f *flight) begin(ctx context.Context) error {
	for _, addr := range f.addrs {
		if err := f.ask(ctx, http.MethodPost, addr, io.Discard); err != nil {
			return fmt.Errorf("starting a recorder: %w", err)
		}
	}
	return nil
}

// Keep writes the nodes' latest recordings to the cluster's folder, one file a node.
func (s *service) Keep(ctx context.Context, name string) (where string, err error) {
	f := s.flight
	if len(f.addrs) == 0 {
		return "", nil
	}
	for i, addr := range f.addrs {
		path := filepath.Join(f.dir, fmt.Sprintf("%s-node-%d.trace", name, i+1))
		err = errors.Join(err, f.keep(ctx, addr, path))
	}
	return filepath.Join(f.dir, name+"-node-*.trace"), err
}

func (f *flight) keep(ctx context.Context, addr, path string) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return f.ask(ctx, http.MethodGet, addr, file)
}

func (f *flight) ask(ctx context.Context, method, addr string, out io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+addr+"/debug/flight", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", method, req.URL, resp.Status)
	}
	_, err = io.Copy(out, resp.Body)
	return err
}
