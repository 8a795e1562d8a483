// Package build makes the belfry program of an earlier commit out of the history of this repository, for tests that run
// it beside the present build.
//
//	FirstVersion   the last build that reads command version 1 alone
//	OpenCalls      the last build without API keys and namespaces, of command version 2
//
// A shallow clone or a source archive lacks the history: the error is then ErrNoHistory, and a test says what it did
// not test.
//
// Why not keep an old program? The repository holds no binaries, and one would serve a single platform.
package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// FirstVersion is the commit of the last build that reads command version 1 alone.
const FirstVersion = "c003b21d8b80c6644122d366f18918a2b6884e30"

// ErrNoHistory means that the commit is not in the repository, or that there is no repository.
var ErrNoHistory = errors.New("git has no history of that build here")

// OpenCalls is the commit of the last build without API keys and namespaces, of command version 2.
const OpenCalls = "90ec059d2011f260945b96a6f5f24f8653501ee4"

const module = "github.com/belfryhq/belfry"

// At builds the program of a commit with build tags, and returns its path in dir. It leaves the commit's sources there,
// too.
func At(ctx context.Context, commit, dir string, tags ...string) (binary string, err error) {
	sources := filepath.Join(dir, "source-"+commit[:min(len(commit), 12)])
	if err := extract(ctx, commit, sources); err != nil {
		return "", err
	}
	if binary, err = filepath.Abs(filepath.Join(dir, "belfry-"+commit[:min(len(commit), 12)])); err != nil {
		return "", err
	}
	_, err = run(ctx, "go", "build", "-C", sources, "-trimpath", "-buildvcs=false", "-tags",
		strings.Join(tags, ","), "-o", binary, "./cmd/belfry")
	return binary, err
}

// extract writes the files of a commit to a folder.
func extract(ctx context.Context, commit, to string) error {
	repository, err := run(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return err
	}
	if _, err := run(ctx, "git", "-C", repository, "cat-file", "-e", commit+"^{commit}"); err != nil {
		return fmt.Errorf("%w: commit %s: %w", ErrNoHistory, commit, err)
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	archive := to + ".tar"
	if _, err := run(ctx, "git", "-C", repository, "archive", "-o", archive, commit); err != nil {
		return err
	}
	_, err = run(ctx, "tar", "-x", "-f", archive, "-C", to)
	return errors.Join(err, os.Remove(archive))
}

// run runs a command and returns its output. The error has the command's words.
func run(ctx context.Context, command ...string) (string, error) {
	var out, said strings.Builder
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(command[:2], " "), err, strings.TrimSpace(said.String()))
	}
	return strings.TrimSpace(out.String()), nil
}
