package docstest

import (
	"fmt"
	"slices"
	"strings"
)

// kind is the info string of a block, parsed.
type kind struct {
	language   string
	background string // sh or a program: name of a block that keeps running
	with       string // sh: name of a background block further down that runs already
	untested   string // sh: why the test cannot run the block
	of         string // output: name of the background block that prints it
	shape      bool   // output: figures may differ
}

// runs reports whether a block is a whole program.
func (k kind) runs() bool { return runners[k.language].command != "" }

// parseKind parses an info string.
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
		return kind{}, fmt.Errorf("its fence names no kind: sh, console, go, java, python, ts, json, output, yaml, sql or text")
	}
	k := kind{language: words[0]}
	if !k.runs() && !slices.Contains([]string{"sh", "console", "json", "output", "yaml", "sql", "text"}, k.language) {
		return k, fmt.Errorf("%q is no kind of block", info)
	}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		switch {
		case (k.language == "sh" || k.runs()) && name == "background" && value != "":
			k.background = value
		case k.language == "sh" && name == "with" && value != "":
			k.with = value
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

// checkOrder reports the first block without a kind, or with an output that no earlier block prints.
func checkOrder(p page) error {
	printed := false // a block above has printed output
	running := map[string]bool{}
	for _, b := range playOrder(p.blocks) {
		k, err := parseKind(b.info)
		switch {
		case err != nil:
		case k.with != "" && !running[k.with]:
			err = fmt.Errorf("no block below is named %s", k.with)
		case running[k.background]:
			err = fmt.Errorf("a block named %s is there already", k.background)
		case k.of != "" && !running[k.of]:
			err = fmt.Errorf("no block above is named %s", k.of)
		case (k.language == "json" || k.language == "output" && k.of == "") && !printed:
			err = fmt.Errorf("no commands stand before this %s", k.language)
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", p.name, b.line, err)
		}
		if k.background != "" {
			running[k.background] = true
		}
		if k.background == "" && (k.language == "sh" || k.language == "console" || k.runs()) {
			printed = k.language == "sh" && k.untested == "" || k.runs()
		}
	}
	return nil
}

// playOrder returns the blocks of a page in the order in which they run: a background block, and the output behind it,
// before the first block that runs with it.
func playOrder(blocks []block) []block {
	blocks = slices.Clone(blocks)
	for i := 0; i < len(blocks); i++ {
		k, err := parseKind(blocks[i].info)
		if err != nil || k.with == "" {
			continue
		}
		for at := i + 1; at < len(blocks); at++ {
			if below, err := parseKind(blocks[at].info); err != nil || below.background != k.with {
				continue
			}
			end := at + 1
			if end < len(blocks) && blocks[end].info == "output of="+k.with {
				end++
			}
			first := slices.Clone(blocks[at:end])
			blocks = slices.Insert(slices.Delete(blocks, at, end), i, first...)
			i += len(first)
			break
		}
	}
	return blocks
}
