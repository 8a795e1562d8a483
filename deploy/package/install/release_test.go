package install

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// parts are the parts of a package that both configurations describe.
type parts struct {
	Section     string            `json:"section"`
	Priority    string            `json:"priority"`
	Maintainer  string            `json:"maintainer"`
	Vendor      string            `json:"vendor"`
	Homepage    string            `json:"homepage"`
	License     string            `json:"license"`
	Description string            `json:"description"`
	Scripts     map[string]string `json:"scripts"`
	Contents    []content         `json:"contents"`
}

type content struct {
	Source string         `json:"src"`
	To     string         `json:"dst"`
	Type   string         `json:"type"`
	Info   map[string]int `json:"file_info"`
}

const repository = "../../.."

func load(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(repository, file))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// TestPackagesOfReleases checks that goreleaser makes the packages that the tests install.
func TestPackagesOfReleases(t *testing.T) {
	var here parts
	load(t, "deploy/package/nfpm.yaml", &here)
	var release struct {
		Packages []parts `json:"nfpms"`
	}
	load(t, ".goreleaser.yaml", &release)
	if len(release.Packages) != 1 || here.Contents[0].To != "/usr/bin/belfry" {
		t.Fatalf("%+v, %+v", release, here)
	}
	here.Contents = here.Contents[1:] // goreleaser adds the program by itself
	if !reflect.DeepEqual(release.Packages[0], here) {
		t.Errorf("goreleaser: %+v\n       here: %+v", release.Packages[0], here)
	}
	for _, c := range here.Contents {
		if c.Source == "" || strings.HasPrefix(c.Source, "bin/share/") { // share.sh makes them
			continue
		}
		if _, err := os.Stat(filepath.Join(repository, c.Source)); err != nil {
			t.Error(err)
		}
	}
}

// TestImagesOfReleases checks that the image of a release is the image that Dockerfile builds.
func TestImagesOfReleases(t *testing.T) {
	here, release := lastStage(t, "Dockerfile"), lastStage(t, "release.Dockerfile")
	if len(here) < 10 || !reflect.DeepEqual(here, release) {
		t.Errorf("%q\n%q", here, release)
	}
	all := digest.ReplaceAllString(strings.Join(here, "\n")+"\n", "")
	for _, want := range []string{
		"FROM gcr.io/distroless/static-debian12:nonroot AS node", "USER 65532:65532", "STOPSIGNAL SIGTERM",
		"HEALTHCHECK --interval=10s --timeout=6s --start-period=1h --retries=18 CMD [\"/usr/bin/belfry\", \"healthcheck\"]",
	} {
		if !strings.Contains(all, want+"\n") {
			t.Errorf("no %q", want)
		}
	}
}

// digest is the digest that pins an image.
var digest = regexp.MustCompile("@sha256:[0-9a-f]{64}")

// TestPinnedImages pins the images of a copy of the folder, with a registry that gives all images one digest.
func TestPinnedImages(t *testing.T) {
	copied, bin := t.TempDir(), t.TempDir()
	files := []string{"Dockerfile", "release.Dockerfile", "compose.yaml"}
	read := func(dir, file string) string {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	images := filepath.Join(repository, "deploy/docker")
	for _, file := range files {
		write(filepath.Join(copied, file), digest.ReplaceAllString(read(images, file), ""))
	}
	pin := func(args ...string) (string, error) {
		script := exec.CommandContext(t.Context(), filepath.Join(images, "pin.sh"), args...)
		script.Env = append(os.Environ(), "FOLDER="+copied, "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := script.CombinedOutput()
		return string(out), err
	}
	out, err := pin("check")
	for _, image := range []string{"golang:", "busybox:", "static-debian12:nonroot", "prom/prometheus:", "grafana/grafana:"} {
		if err == nil || !strings.Contains(out, image) {
			t.Errorf("%s is not missed: %v, %s", image, err, out)
		}
	}
	for _, sum := range []string{strings.Repeat("a", 64), strings.Repeat("b", 64)} { // the second run brings new digests
		write(filepath.Join(bin, "docker"), "#!/bin/sh\necho sha256:"+sum+"\n")
		if out, err := pin(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if out, err := pin("check"); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		for _, file := range files {
			pinned := read(copied, file)
			if strings.Count(pinned, "@sha256:"+sum) == 0 ||
				digest.ReplaceAllString(pinned, "") != digest.ReplaceAllString(read(images, file), "") {
				t.Errorf("%s:\n%s", file, pinned)
			}
		}
	}
}

// TestModulesOfReleases checks that module belfrytest requires the version of the chart, which a release has, too.
func TestModulesOfReleases(t *testing.T) {
	var chart struct {
		Version string `json:"appVersion"`
	}
	load(t, "deploy/helm/belfry/Chart.yaml", &chart)
	module, err := os.ReadFile(filepath.Join(repository, "belfrytest/go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "\nrequire github.com/belfryhq/belfry v" + chart.Version + "\n"; !strings.Contains(string(module), want) {
		t.Errorf("belfrytest/go.mod does not have %q", want)
	}
}

// TestSignature checks that goreleaser signs the checksums, and that the page on installations names the signature.
func TestSignature(t *testing.T) {
	var release struct {
		Signs []struct {
			Of        string `json:"artifacts"` //nolint:misspell // goreleaser's word
			Signature string `json:"signature"`
		} `json:"signs"`
		Checksum struct {
			Name string `json:"name_template"`
		} `json:"checksum"`
	}
	load(t, ".goreleaser.yaml", &release)
	page, err := os.ReadFile(filepath.Join(repository, "docs/install.md"))
	if err != nil {
		t.Fatal(err)
	}
	if len(release.Signs) != 1 || release.Signs[0].Of != "checksum" {
		t.Fatalf("%+v", release.Signs)
	}
	_, suffix, _ := strings.Cut(release.Signs[0].Signature, "}") // behind the name of the signed file
	name := release.Checksum.Name + suffix
	if !strings.Contains(string(page), "--bundle "+name+" ") {
		t.Errorf("docs/install.md does not verify %s", name)
	}
}

// lastStage returns the instructions of an image's last stage, without the copies of the program.
func lastStage(t *testing.T, file string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(repository, "deploy/docker", file))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	var lines []string
	for line := range strings.Lines(text[strings.LastIndex(text, "\nFROM ")+1:]) {
		line = strings.TrimSpace(line)
		_, after, copies := strings.Cut(line, "COPY ")
		switch {
		case line == "" || strings.HasPrefix(line, "#") || line == "ARG TARGETPLATFORM":
		case copies && strings.HasSuffix(line, "/usr/bin/belfry"):
		case copies:
			_, after, _ = strings.Cut(after, " ") // the stage
			lines = append(lines, "COPY "+after)
		default:
			lines = append(lines, line)
		}
	}
	return lines
}

// TestStamp checks the version of a program that was built as an image and a release build it.
func TestStamp(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), builtHere(t, "belfry"), "--version").Output()
	if err != nil || !strings.HasPrefix(string(out), "belfry v0.0.0-test (commit 0123abc, ") {
		t.Errorf("%s, %v", out, err)
	}
}

// TestListOfModules checks that the list of the program's modules has the important ones.
func TestListOfModules(t *testing.T) {
	data, err := os.ReadFile(builtHere(t, "belfry.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Format     string `json:"bomFormat"`
		Components []struct {
			Name    string `json:"name"`
			Version string `json:"version"`
		} `json:"components"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, c := range list.Components {
		versions[c.Name] = c.Version
	}
	if list.Format != "CycloneDX" || versions["github.com/hashicorp/raft"] == "" || len(versions) < 20 {
		t.Errorf("%s: %v", list.Format, versions)
	}
}

// builtHere returns the path of a file that .ci/packages has built, for a test that needs no root.
func builtHere(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("BELFRY_PACKAGES")
	if dir == "" {
		t.Skip("it needs the packages that .ci/packages builds")
	}
	return filepath.Join(dir, name)
}
