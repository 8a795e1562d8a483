package docstest

import (
	"fmt"
	"slices"
	"strings"
)

// kind is what the info string of a block says.
type kind struct {
	language   string
	background string // sh: the name under which it is left running
	untested   string // sh: why it cannot be run
	of         string // output: the background block that prints it
	shape      bool   // output: figures may differ
}

// parseKind reads an info string.
func parseKind(info string) (kind, error) {
	if reason, ok := strings.CutPrefix(info, "sh untested:"); ok {
		k := kind{language: "sh", untested: strings.TrimSpace(reason)}
		if k.untested == "" {
			return k, fmt.Errorf("%q gives no reason", info)
		}
		return k, nil
	}
	words := strings.Fields(info)
	if len(words) == 0 {
		return kind{}, fmt.Errorf("its fence does not say what it is: sh, console, json, output or text")
	}
	k := kind{language: words[0]}
	if !slices.Contains([]string{"sh", "console", "json", "output", "text"}, k.language) {
		return k, fmt.Errorf("%q is no kind of block", info)
	}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		switch {
		case k.language == "sh" && name == "background" && value != "":
			k.background = value
		case k.language == "output" && name == "of" && value != "":
			k.of = value
		case k.language == "output" && word == "shape":
			k.shape = true
		default:
			return k, fmt.Errorf("%q is no kind of block: %s", info, word)
		}
	}
	return k, nil
}

// checkOrder reports the first block that has no kind, or has nothing before it whose output it could be.
func checkOrder(p page) error {
	var before string // the language of the last block that was no text
	running := map[string]bool{}
	for _, b := range p.blocks {
		k, err := parseKind(b.info)
		switch {
		case err != nil:
		case k.background != "" && running[k.background]:
			err = fmt.Errorf("a block named %s is there already", k.background)
		case k.of != "" && !running[k.of]:
			err = fmt.Errorf("no block above is named %s", k.of)
		case k.language == "json" && before != "sh",
			k.language == "output" && k.of == "" && before != "sh" && before != "json" && before != "output":
			err = fmt.Errorf("no commands stand before this %s", k.language)
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", p.name, b.line, err)
		}
		running[k.background] = true
		switch {
		case k.untested != "" || k.background != "":
			before = "nothing to compare"
		case k.language != "text":
			before = k.language
		}
	}
	return nil
}
