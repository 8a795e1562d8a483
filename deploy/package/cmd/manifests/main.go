// Command manifests writes the plain manifests: the chart, rendered with its default values for the release and the
// namespace belfry.
//
//	go run -C deploy/package ./cmd/manifests ../helm/belfry ../kubernetes/belfry.yaml
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/belfryhq/belfry/deploy/package/chart"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "manifests:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: manifests FOLDER-OF-CHART FILE")
	}
	text, err := chart.Plain(args[0])
	if err != nil {
		return err
	}
	return os.WriteFile(args[1], text, 0o644)
}
