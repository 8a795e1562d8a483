package docstest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// badge matches the name and the value of a badge of README.md.
var badge = regexp.MustCompile(`!\[([A-Za-z]+): ([^\]]+)\]\((docs/pictures/[a-z]+\.svg)\)`)

// TestBadgesAreTrue compares the badges of README.md with their pictures, and with the files that they sum up.
func TestBadgesAreTrue(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(repository, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	sources := map[string]struct {
		file string
		fact *regexp.Regexp // its groups make the value
	}{
		"Licence": {"LICENSE", regexp.MustCompile(`^\s*(Apache) License\s+Version (2\.0),`)},
		"Go":      {"go.mod", regexp.MustCompile(`(?m)^go (\d+\.\d+)`)},
		"Release": {"CHANGELOG.md", regexp.MustCompile(`(?m)^## .*\((not yet) released\)$`)},
	}
	for _, match := range badge.FindAllStringSubmatch(read("README.md"), -1) {
		name, value, picture := match[1], match[2], match[3]
		source, ok := sources[name]
		if !ok {
			t.Errorf("no file is known for the badge %s", name)
			continue
		}
		delete(sources, name)
		if want := `aria-label="` + name + ": " + value + `"`; !strings.Contains(read(picture), want) {
			t.Errorf("%s lacks %s", picture, want)
		}
		fact := source.fact.FindStringSubmatch(read(source.file))
		if fact == nil || strings.Join(fact[1:], "-") != value {
			t.Errorf("%s: %s, while %s says %q", name, value, source.file, fact)
		}
	}
	for name := range sources {
		t.Errorf("README.md lacks the badge %s", name)
	}
}
