// Package chart renders Belfry's Helm chart, and decodes the manifests into the types of the API of Kubernetes. It
// is for the plain manifests in deploy/kubernetes, and for tests.
//
// Rendering needs no cluster. The types refuse fields that the API does not know. They do not know which values of a
// field the API refuses: only a cluster can tell that.
//
// The package is in a module of its own, so that Belfry does not depend on Helm and Kubernetes.
package chart

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
)

// Release is one installation of the chart.
type Release struct {
	Name      string
	Namespace string
	Upgrade   bool // of a release that is installed
}

// Rendered holds the manifests of a release.
type Rendered struct {
	Manifests []byte // YAML documents, in the order of the names of their files
	Notes     string // for people, after the installation
}

// notes is the name of the template for people.
const notes = "NOTES.txt"

// Render renders the chart in a folder. The values are added to those of the chart, and checked by its schema.
func Render(dir string, release Release, values map[string]any) (*Rendered, error) {
	c, err := loader.LoadDir(dir)
	if err != nil {
		return nil, err
	}
	options := chartutil.ReleaseOptions{
		Name: release.Name, Namespace: release.Namespace, Revision: 1,
		IsInstall: !release.Upgrade, IsUpgrade: release.Upgrade,
	}
	all, err := chartutil.ToRenderValues(c, values, options, chartutil.DefaultCapabilities.Copy())
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	var r Rendered
	var documents []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := strings.TrimSpace(files[name])
		switch {
		case path.Base(name) == notes:
			r.Notes = text
		case text != "":
			documents = append(documents, text+"\n")
		}
	}
	r.Manifests = []byte(strings.Join(documents, separator))
	return &r, nil
}

// separator stands between two YAML documents.
const separator = "---\n"

// Decode returns the objects in YAML documents. A field that its type does not have, or that is there twice, is an
// error, and so is a kind that is not one of Kubernetes' own.
func Decode(manifests []byte) ([]runtime.Object, error) {
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var objects []runtime.Object
	var errs []error
	for document := range bytes.SplitSeq(manifests, []byte("\n"+separator)) {
		object, kind, err := decoder.Decode(document, nil, nil)
		if err != nil {
			errs = append(errs, fmt.Errorf("%v: %w\n%s", kind, err, document))
			continue
		}
		objects = append(objects, object)
	}
	return objects, errors.Join(errs...)
}
